package metallb

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// spans reads the addresses of a pool. They are returned sorted, disjoint and not
// adjacent.
func (w *faults) spans(pool string, entries []string) []netipx.IPRange {
	if len(entries) == 0 {
		w.add("addresses: pool has no prefixes defined")
	}
	var all []span
	for i, e := range entries {
		r, err := parseSpan(e)
		if err != nil {
			w.add("addresses[%d]: %v", i, err)
			continue
		}
		if kind := lb.Unusable(r); kind != "" {
			w.add("addresses[%d]: %s has %s addresses, which a Service cannot use", i, lb.SpanString(r), kind)
		}
		all = append(all, span{i, e, r})
	}
	w.overlaps(pool, all)
	var b netipx.IPSetBuilder
	for _, s := range all {
		b.AddRange(s.IPRange)
	}
	set, err := b.IPSet()
	if err != nil { // only for invalid ranges, which were not collected
		return nil
	}
	return set.Ranges()
}

// span is one entry of a pool.
type span struct {
	index int
	text  string
	netipx.IPRange
}

// overlaps notes every entry that has an address of another, which MetalLB
// refuses.
func (w *faults) overlaps(pool string, all []span) {
	byStart := slices.SortedStableFunc(slices.Values(all), func(s, t span) int { return s.From().Compare(t.From()) })
	var pairs [][2]span
	for i := 1; i < len(byStart); i++ {
		before, s := byStart[i-1], byStart[i]
		if before.To().Less(s.From()) {
			continue
		}
		if s.index < before.index {
			pairs = append(pairs, [2]span{s, before})
		} else {
			pairs = append(pairs, [2]span{before, s})
		}
		if s.To().Less(before.To()) {
			byStart[i] = before // reaches further than s
		}
	}
	slices.SortFunc(pairs, func(p, q [2]span) int {
		return cmp.Or(cmp.Compare(p[1].index, q[1].index), cmp.Compare(p[0].index, q[0].index))
	})
	for _, p := range pairs {
		w.add("addresses[%d]: CIDR %q in pool %q overlaps with already defined CIDR %q", p[1].index, p[1].text, pool, p[0].text)
	}
}

// parseSpan reads one entry as MetalLB does: a CIDR without blanks, whose host
// bits are ignored, or a range, with blanks around its ends or not.
func parseSpan(s string) (netipx.IPRange, error) {
	if from, to, isRange := strings.Cut(s, "-"); isRange {
		return parseRange(s, from, to)
	}
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		why := "write it as 192.0.2.0/24 or 2001:db8::/64, or as a range"
		if a, err := lb.ParseAddr(s); err == nil {
			why = fmt.Sprintf("a single address is written %s/%d", a, a.BitLen())
		} else if strings.TrimSpace(s) != s {
			why = "remove the blanks around it"
		}
		return netipx.IPRange{}, fmt.Errorf("invalid CIDR %q: %s", s, why)
	}
	before, _, _ := strings.Cut(s, "/")
	if a, err := netip.ParseAddr(before); err == nil && a.Is4In6() {
		return netipx.IPRange{}, fmt.Errorf("invalid CIDR %q: it is IPv4-mapped IPv6; write it as IPv4", s)
	}
	p, ok := netipx.FromStdIPNet(n)
	if !ok {
		return netipx.IPRange{}, fmt.Errorf("invalid CIDR %q", s)
	}
	return netipx.RangeOfPrefix(p), nil
}

func parseRange(s, from, to string) (netipx.IPRange, error) {
	first, err := lb.ParseAddr(from)
	if err != nil {
		return netipx.IPRange{}, fmt.Errorf("invalid IP range %q: invalid start IP: %w", s, err)
	}
	last, err := lb.ParseAddr(to)
	switch {
	case err != nil:
		return netipx.IPRange{}, fmt.Errorf("invalid IP range %q: invalid end IP: %w", s, err)
	case lb.FamilyOf(first) != lb.FamilyOf(last):
		return netipx.IPRange{}, fmt.Errorf("invalid IP range %q: it mixes IPv4 and IPv6", s)
	case last.Less(first):
		return netipx.IPRange{}, fmt.Errorf("invalid IP range %q: start IP %q is after the end IP %q", s, first, last)
	}
	return netipx.IPRangeFrom(first, last), nil
}
