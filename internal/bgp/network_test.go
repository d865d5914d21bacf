package bgp

import (
	"net/netip"
	"testing"

	"fairlead.io/internal/lb"
)

// addressed is a node with these addresses on the interface of the session.
type addressed struct {
	Network
	has []netip.Addr
}

func (a addressed) Addresses(netip.Addr) ([]netip.Addr, error) { return a.has, nil }

// The next hop of the session's own family is its address; that of the other is the first on the
// same interface; fixed ones count more.
func TestNextHops(t *testing.T) {
	four, six, local := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11"), netip.MustParseAddr("fe80::1%eth0")
	type pair = [len(lb.Families)]netip.Addr
	for name, c := range map[string]struct {
		local    netip.Addr
		has      []netip.Addr
		both     bool
		extended bool
		fixed    pair
		want     pair
	}{
		"one family":                     {local: four, has: []netip.Addr{four, six}, want: pair{lb.IPv4: four}},
		"both":                           {local: four, has: []netip.Addr{local.WithZone(""), six}, both: true, want: pair{four, six}},
		"both over IPv6":                 {local: six, has: []netip.Addr{four, six}, both: true, want: pair{four, six}},
		"none of the other":              {local: four, has: []netip.Addr{four}, both: true, want: pair{lb.IPv4: four}},
		"extended, no IPv4":              {local: six, has: []netip.Addr{six}, both: true, extended: true, want: pair{six, six}},
		"unnumbered":                     {local: local, has: []netip.Addr{four}, both: true, extended: true, want: pair{local.WithZone(""), local.WithZone("")}},
		"fixed":                          {local: four, has: []netip.Addr{six}, both: true, fixed: pair{lb.IPv6: netip.MustParseAddr("2001:db8::99")}, want: pair{four, netip.MustParseAddr("2001:db8::99")}},
		"fixed, also of its own address": {local: four, has: []netip.Addr{six}, both: true, fixed: pair{lb.IPv4: netip.MustParseAddr("192.0.2.99")}, want: pair{netip.MustParseAddr("192.0.2.99"), six}},
	} {
		a := agreed{ExtendedNextHop: c.extended}
		a.Families = pairOf(c.both, lb.FamilyOf(c.local))
		if got := nextHops(addressed{has: c.has}, a, c.local, c.fixed); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// pairOf says which families are spoken: one, or both.
func pairOf(both bool, own lb.Family) (out [len(lb.Families)]bool) {
	for f := range out {
		out[f] = both || lb.Family(f) == own
	}
	return out
}
