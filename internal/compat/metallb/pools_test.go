package metallb

import (
	"math/big"
	"strings"
	"testing"

	"go4.org/netipx"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// What MetalLB's own tests say about the addresses of a pool.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addresses []string
		want, bad string
	}{
		{name: "CIDR", addresses: []string{"10.20.0.0/16"}, want: "10.20.0.0/16"},
		{name: "host bits", addresses: []string{"10.20.30.40/24"}, want: "10.20.30.0/24"},
		{name: "IPv6", addresses: []string{"1000::4/127"}, want: "1000::4/127"},
		{name: "range", addresses: []string{"40.0.0.150-40.0.0.200"}, want: "40.0.0.150-40.0.0.200"},
		{name: "range with blanks", addresses: []string{"40.0.0.210 - 40.0.0.240"}, want: "40.0.0.210-40.0.0.240"},
		{name: "range of one", addresses: []string{"40.0.0.1-40.0.0.1"}, want: "40.0.0.1"},
		{name: "range with blanks all around", addresses: []string{" 40.0.0.1-40.0.0.2\t"}, want: "40.0.0.1-40.0.0.2"},
		{name: "range of IPv6", addresses: []string{"fc00::9-fc00::a"}, want: "fc00::9-fc00::a"},
		{name: "in any order, of both families", addresses: []string{"fc00::/120", "1.1.1.101-1.1.1.200", "1.1.1.1-1.1.1.100"}, want: "1.1.1.1-1.1.1.200 fc00::/120"},
		{name: "prefix length with a zero", addresses: []string{"10.0.0.0/08"}, want: "10.0.0.0/8"},
		{name: "none", bad: "pool has no prefixes defined"},
		{name: "blank before a CIDR", addresses: []string{" 10.0.0.0/8"}, bad: `invalid CIDR " 10.0.0.0/8": remove the blanks`},
		{name: "blank after a CIDR", addresses: []string{"10.0.0.0/8 "}, bad: `invalid CIDR "10.0.0.0/8 ": remove the blanks`},
		{name: "single address", addresses: []string{"10.0.0.1"}, bad: "a single address is written 10.0.0.1/32"},
		{name: "single IPv6 address", addresses: []string{"fc00::1"}, bad: "a single address is written fc00::1/128"},
		{name: "no address", addresses: []string{"100.200.300.400/24"}, bad: `invalid CIDR "100.200.300.400/24"`},
		{name: "prefix too long", addresses: []string{"1.2.3.0/33"}, bad: `invalid CIDR "1.2.3.0/33"`},
		{name: "empty", addresses: []string{""}, bad: `invalid CIDR ""`},
		{name: "start after end", addresses: []string{"1.2.3.10-1.2.3.1"}, bad: `start IP "1.2.3.10" is after the end IP "1.2.3.1"`},
		{name: "no start", addresses: []string{"x-1.2.3.1"}, bad: "invalid start IP"},
		{name: "no end", addresses: []string{"1.2.3.1-"}, bad: "invalid end IP"},
		{name: "CIDR as end", addresses: []string{"1.2.3.1-1.2.4.0/24"}, bad: "invalid end IP"},
		{name: "range of two families", addresses: []string{"1.2.3.1-fc00::1"}, bad: "mixes IPv4 and IPv6"},
		{name: "mapped", addresses: []string{"::ffff:1.2.3.0/120"}, bad: "write it as IPv4"},
		{name: "overlap", addresses: []string{"10.0.0.0/8", "10.0.0.0/16"}, bad: `addresses[1]: CIDR "10.0.0.0/16" in pool "p" overlaps with already defined CIDR "10.0.0.0/8"`},
		{name: "overlap, the small one first", addresses: []string{"10.0.0.0/16", "10.0.0.0/8"}, bad: `addresses[1]: CIDR "10.0.0.0/8" in pool "p" overlaps with already defined CIDR "10.0.0.0/16"`},
		{name: "overlap, behind another", addresses: []string{"10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"}, bad: `addresses[2]: CIDR "10.2.0.0/16" in pool "p" overlaps with already defined CIDR "10.0.0.0/8"`},
		{name: "overlap of ranges", addresses: []string{"1.1.1.1-1.1.1.100", "1.1.1.15-1.1.1.20"}, bad: `CIDR "1.1.1.15-1.1.1.20" in pool "p" overlaps with already defined CIDR "1.1.1.1-1.1.1.100"`},
		{name: "twice", addresses: []string{"10.0.0.0/24", "10.0.0.0/24"}, bad: "overlaps with already defined"},
		{name: "everything", addresses: []string{"0.0.0.0/0"}, bad: "which a Service cannot use"},
		{name: "loopback", addresses: []string{"127.0.0.0/8"}, bad: "loopback"},
		{name: "multicast", addresses: []string{"ff02::/64"}, bad: "multicast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pool(poolWith(tt.addresses...))
			if tt.bad != "" {
				if p.Invalid == nil || p.Invalid.Code != lb.PoolInvalid || !strings.Contains(p.Invalid.Text, tt.bad) {
					t.Errorf("says %v, want %q", p.Invalid, tt.bad)
				}
				return
			}
			var got []string
			for _, s := range p.Spans {
				got = append(got, lb.SpanString(s))
			}
			if p.Invalid != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("has %s (%v), want %s", got, p.Invalid, tt.want)
			}
		})
	}
}

func poolWith(addresses ...string) *metallb.IPAddressPool {
	var p metallb.IPAddressPool
	p.Name, p.Spec.Addresses = "p", addresses
	return &p
}

// Priorities may be of any size; their order stays.
func TestPriority(t *testing.T) {
	last := int32(-1 << 31)
	for _, priority := range []int{-1 << 62, -5, 1, 20, 1 << 62} {
		p := poolWith("10.0.0.0/24")
		p.Spec.AllocateTo = &metallb.ServiceAllocation{Priority: priority}
		if got := pool(p).Priority; got < last || priority > -1<<31 && priority < 1<<31 && int(got) != priority {
			t.Errorf("%d became %d", priority, got)
		} else {
			last = got
		}
	}
}

// FuzzAddresses: a pool that is accepted has sorted, disjoint addresses of one
// family each, the same in whatever order they are listed, and as many as the
// entries have one by one.
func FuzzAddresses(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.1.1-10.0.1.9")
	f.Add("10.0.0.0/8", "10.0.0.0/16")
	f.Add(" 10.0.0.0/8", "fc00::/120")
	f.Add("10.0.0.1", "::ffff:10.0.0.0/104")
	f.Add("1.1.1.1 - 1.1.1.3", "1.1.1.4/32")
	f.Add("1-2", "/")
	f.Fuzz(func(t *testing.T, a, b string) {
		p, q := pool(poolWith(a, b)), pool(poolWith(b, a))
		if (p.Invalid == nil) != (q.Invalid == nil) {
			t.Fatalf("%q and %q: %v, the other way round %v", a, b, p.Invalid, q.Invalid)
		}
		if p.Invalid != nil {
			if p.Invalid.Code != lb.PoolInvalid || len(p.Invalid.Text) > 8192 {
				t.Errorf("%q and %q: %v", a, b, p.Invalid)
			}
			return
		}
		for i, s := range p.Spans {
			if !s.IsValid() || lb.FamilyOf(s.From()) != lb.FamilyOf(s.To()) || s.From().Zone() != "" || lb.Unusable(s) != "" || s != q.Spans[i] {
				t.Errorf("%q and %q: %v", a, b, s)
			}
			if i > 0 && !p.Spans[i-1].To().Next().Less(s.From()) && lb.FamilyOf(p.Spans[i-1].To()) == lb.FamilyOf(s.From()) {
				t.Errorf("%q and %q: %v touches %v", a, b, p.Spans[i-1], s)
			}
		}
		one, two := pool(poolWith(a)), pool(poolWith(b))
		if got, want := size(p.Spans), size(append(one.Spans, two.Spans...)); got.Cmp(want) != 0 {
			t.Errorf("%q and %q: %s addresses, not %s", a, b, got, want)
		}
	})
}

func size(spans []netipx.IPRange) *big.Int {
	total := new(big.Int)
	for _, s := range spans {
		total.Add(total, lb.SpanSize(s))
	}
	return total
}
