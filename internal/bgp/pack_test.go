package bgp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"fairlead.io/internal/lb"
)

var (
	both    = [len(lb.Families)]bool{true, true}
	nothing = [len(lb.Families)]bool{}
	hops    = [len(lb.Families)]netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")}
)

func external() agreed {
	return agreed{LocalAS: 65010, PeerAS: 65001, Families: both, FourOctets: true}
}

// rib is what a router has after some messages: prefix → attributes as text.
type rib map[string]string

// apply reads messages as a router does. It fails for what no router should get.
func (r rib) apply(t *testing.T, messages ...[]byte) (ends int) {
	t.Helper()
	for _, b := range messages {
		if len(b) > maxMessage {
			t.Errorf("a message has %d bytes", len(b))
		}
		m, err := packet.ParseBGPMessage(b)
		if err != nil { // as a router reads it that does not know large AS numbers
			m, err = packet.ParseBGPMessage(b, &packet.MarshallingOption{Use2ByteAS: true})
		}
		if err != nil {
			t.Fatalf("% x: %v", b, err)
		}
		u := m.Body.(*packet.BGPUpdate)
		if end, _ := u.IsEndOfRib(); end {
			ends++
			continue
		}
		for _, p := range u.WithdrawnRoutes {
			delete(r, p.NLRI.String())
		}
		var words []string
		var reached []packet.PathNLRI
		for _, a := range u.PathAttributes {
			switch a := a.(type) {
			case *packet.PathAttributeMpReachNLRI:
				reached = a.Value
				words = append(words, fmt.Sprintf("via %v", a.Nexthop))
			case *packet.PathAttributeMpUnreachNLRI:
				for _, p := range a.Value {
					delete(r, p.NLRI.String())
				}
			case *packet.PathAttributeNextHop:
				words = append(words, fmt.Sprintf("via %v", a.Value))
			default:
				words = append(words, a.String())
			}
		}
		for _, p := range append(u.NLRI, reached...) {
			r[p.NLRI.String()] = strings.Join(words, " ")
		}
	}
	return ends
}

func mustPlan(t *testing.T, e *encoder, before sent, want Table, maximum int) change {
	t.Helper()
	c, err := plan(e, before, want, maximum, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func table(prefixes ...string) Table {
	out := Table{}
	for _, p := range prefixes {
		out[netip.MustParsePrefix(p)] = Attributes{}
	}
	return out
}

// many makes n prefixes of one address each.
func many(f lb.Family, n int) Table {
	out := Table{}
	for i := range n {
		a := netip.MustParseAddr("203.0.0.0").As4()
		binary.BigEndian.PutUint16(a[2:], uint16(i))
		p := netip.PrefixFrom(netip.AddrFrom4(a), 32)
		if f == lb.IPv6 {
			b := netip.MustParseAddr("2001:db8:1::").As16()
			binary.BigEndian.PutUint16(b[14:], uint16(i))
			p = netip.PrefixFrom(netip.AddrFrom16(b), 128)
		}
		out[p] = Attributes{}
	}
	return out
}

func TestAttributesOnTheWire(t *testing.T) {
	internal := external()
	internal.PeerAS = internal.LocalAS
	large := external()
	large.LocalAS = 4200000010
	narrow := large
	narrow.FourOctets = false
	for _, test := range []struct {
		name   string
		agreed agreed
		route  Attributes
		want   string
	}{
		{"external", external(), Attributes{LocalPref: 200}, "{Origin: i} {AsPath: 65010} via 192.0.2.11"},
		{"internal", internal, Attributes{}, "{Origin: i} {AsPath: } via 192.0.2.11 {LocalPref: 100}"},
		{"local preference", internal, Attributes{LocalPref: 200}, "{Origin: i} {AsPath: } via 192.0.2.11 {LocalPref: 200}"},
		{"draining", external(), Attributes{Draining: true}, "{Origin: i} {AsPath: 65010} via 192.0.2.11 {Communities: planned-shut}"},
		{"draining, internal", internal, Attributes{LocalPref: 200, Draining: true}, "{Origin: i} {AsPath: } via 192.0.2.11 {LocalPref: 0} {Communities: planned-shut}"},
		{"communities are sorted, each once", external(), Attributes{Communities: []Community{64500<<16 | 7, 64500<<16 | 3, 64500<<16 | 7}},
			"{Origin: i} {AsPath: 65010} via 192.0.2.11 {Communities: 64500:3, 64500:7}"},
		{"large communities", external(), Attributes{LargeCommunities: []LargeCommunity{{64500, 2, 1}, {64500, 1, 2}}},
			"{Origin: i} {AsPath: 65010} via 192.0.2.11 {LargeCommunity: [ 64500:1:2, 64500:2:1]}"},
		{"large AS", large, Attributes{}, "{Origin: i} {AsPath: 4200000010} via 192.0.2.11"},
		{"large AS, old router", narrow, Attributes{}, "{Origin: i} {AsPath: 23456} via 192.0.2.11 4200000010"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := netip.MustParsePrefix("203.0.113.7/32")
			got := rib{}
			got.apply(t, mustPlan(t, newEncoder(test.agreed, hops), nil, Table{p: test.route}, 0).messages...)
			if diff := cmp.Diff(rib{p.String(): test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBothFamiliesAndTheirNextHops(t *testing.T) {
	want := table("203.0.113.0/24", "2001:db8:9::/64")
	got := rib{}
	got.apply(t, mustPlan(t, newEncoder(external(), hops), nil, want, 0).messages...)
	diff := cmp.Diff(rib{"203.0.113.0/24": "{Origin: i} {AsPath: 65010} via 192.0.2.11", "2001:db8:9::/64": "{Origin: i} {AsPath: 65010} via 2001:db8::11"}, got)
	if diff != "" {
		t.Error(diff)
	}
	// IPv4 by way of an IPv6 next hop.
	e := newEncoder(external(), [2]netip.Addr{netip.MustParseAddr("fe80::11"), netip.MustParseAddr("fe80::11")})
	got = rib{}
	c := mustPlan(t, e, nil, want, 0)
	got.apply(t, c.messages...)
	diff = cmp.Diff(rib{"203.0.113.0/24": "{Origin: i} {AsPath: 65010} via fe80::11", "2001:db8:9::/64": "{Origin: i} {AsPath: 65010} via fe80::11"}, got)
	if diff != "" {
		t.Error(diff)
	}
	if got.apply(t, mustPlan(t, e, c.after, nil, 0).messages...); len(got) > 0 {
		t.Errorf("not withdrawn: %v", got)
	}
}

func TestManyPrefixesNeedFewMessages(t *testing.T) {
	for _, test := range []struct {
		family   lb.Family
		prefixes int
		messages int
	}{{lb.IPv4, 1, 1}, {lb.IPv4, 1000, 2}, {lb.IPv4, 10000, 13}, {lb.IPv6, 1000, 5}} {
		e := newEncoder(external(), hops)
		want := many(test.family, test.prefixes)
		got := rib{}
		c := mustPlan(t, e, nil, want, 0)
		got.apply(t, c.messages...)
		if len(got) != test.prefixes || len(c.messages) != test.messages {
			t.Errorf("%d prefixes of %v: %d arrived in %d messages", test.prefixes, test.family, len(got), len(c.messages))
		}
		bye := mustPlan(t, e, c.after, nil, 0)
		if got.apply(t, bye.messages...); len(got) > 0 || len(bye.messages) > test.messages {
			t.Errorf("%d prefixes of %v: %d left after %d withdrawals", test.prefixes, test.family, len(got), len(bye.messages))
		}
	}
}

func TestOnlyTheDifferenceIsSent(t *testing.T) {
	e := newEncoder(external(), hops)
	want := many(lb.IPv4, 1000)
	before := mustPlan(t, e, nil, want, 0)
	if c := mustPlan(t, newEncoder(external(), hops), before.after, want, 0); len(c.messages) > 0 {
		t.Errorf("%d messages for no change", len(c.messages))
	}
	one := netip.MustParsePrefix("203.0.0.5/32")
	want[one] = Attributes{Communities: []Community{1}}
	c := mustPlan(t, e, before.after, want, 0)
	if got := (rib{}); len(c.messages) != 1 || got.apply(t, c.messages...) != 0 || len(got) != 1 || !strings.Contains(got[one.String()], "0:1") {
		t.Errorf("%d messages; the router hears of %v", len(c.messages), got)
	}
	// Another next hop is another route.
	c = mustPlan(t, newEncoder(external(), [2]netip.Addr{netip.MustParseAddr("192.0.2.12")}), before.after, want, 0)
	got := rib{}
	if got.apply(t, c.messages...); len(got) != 1000 {
		t.Errorf("%d prefixes have the new next hop", len(got))
	}
}

func TestOldestRoutesWithinTheMaximum(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	want := Table{}
	for i := range 5 {
		want[netip.MustParsePrefix(fmt.Sprintf("203.0.113.%d/32", i))] = Attributes{Since: day(9 - i)}
	}
	want[netip.MustParsePrefix("2001:db8:9::/128")] = Attributes{Since: day(20)}
	e := newEncoder(external(), hops)
	c := mustPlan(t, e, nil, want, 2)
	got := rib{}
	got.apply(t, c.messages...)
	if len(got) != 3 || got["203.0.113.4/32"] == "" || got["203.0.113.3/32"] == "" || got["2001:db8:9::/128"] == "" {
		t.Errorf("announced: %v", got)
	}
	diff := cmp.Diff([]Withheld{
		{netip.MustParsePrefix("203.0.113.0/32"), OverMaximum}, {netip.MustParsePrefix("203.0.113.1/32"), OverMaximum}, {netip.MustParsePrefix("203.0.113.2/32"), OverMaximum},
	}, c.withheld, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }))
	if diff != "" {
		t.Error(diff)
	}
	// An older one comes: the router must not have three at any time.
	want[netip.MustParsePrefix("203.0.113.9/32")] = Attributes{Since: day(1)}
	for _, m := range mustPlan(t, e, c.after, want, 2).messages {
		if got.apply(t, m); len(got) > 3 {
			t.Errorf("the router has %v", got)
		}
	}
	if got["203.0.113.9/32"] == "" || len(got) != 3 {
		t.Errorf("announced: %v", got)
	}
}

func TestWhatASessionCannotCarry(t *testing.T) {
	a := external()
	a.Families = [2]bool{true, false}
	heavy := Attributes{}
	for i := range 1000 {
		heavy.Communities = append(heavy.Communities, Community(i))
	}
	want := table("2001:db8:9::/128", "203.0.113.1/32")
	want[netip.MustParsePrefix("203.0.113.2/32")] = heavy
	c := mustPlan(t, newEncoder(a, hops), nil, want, 0)
	reasons := map[string]Why{}
	for _, w := range c.withheld {
		reasons[w.Prefix.String()] = w.Why
	}
	if diff := cmp.Diff(map[string]Why{"2001:db8:9::/128": NoFamily, "203.0.113.2/32": TooLarge}, reasons); diff != "" {
		t.Error(diff)
	}
	c = mustPlan(t, newEncoder(external(), [2]netip.Addr{hops[0]}), nil, table("2001:db8:9::/128"), 0)
	if len(c.messages) > 0 || len(c.withheld) != 1 || c.withheld[0].Why != NoNextHop {
		t.Errorf("%d messages, withheld: %v", len(c.messages), c.withheld)
	}
}

// TestAttributesAreNotMistaken for others whose bytes are alike.
func TestAttributesAreNotMistaken(t *testing.T) {
	want := Table{
		netip.MustParsePrefix("203.0.113.1/32"): {Communities: []Community{0x2f000001, 0x30000002, 0x31000003}},
		netip.MustParsePrefix("203.0.113.2/32"): {LargeCommunities: []LargeCommunity{{0x00000130, 0x00000231, 0x0000032f}}},
	}
	got := rib{}
	got.apply(t, mustPlan(t, newEncoder(external(), hops), nil, want, 0).messages...)
	if !strings.Contains(got["203.0.113.1/32"], "Communities: 12032:1") || !strings.Contains(got["203.0.113.2/32"], "LargeCommunity: [ 304:561:815]") {
		t.Errorf("the router has %v", got)
	}
}
