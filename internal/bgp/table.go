package bgp

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// Why a prefix of the table is not announced to a router.
type Why uint8

const (
	// NoFamily: the session does not carry prefixes of this family.
	NoFamily Why = iota + 1
	// NoNextHop: the interface of the session has no address that can be the next hop.
	NoNextHop
	// OverMaximum: the peer's maximum is used up by older routes.
	OverMaximum
	// TooLarge: the attributes do not fit into a message.
	TooLarge
)

func (w Why) String() string {
	switch w {
	case NoFamily:
		return "the session does not carry this family"
	case NoNextHop:
		return "the interface of the session has no address to be the next hop"
	case OverMaximum:
		return "the peer's maximum of prefixes is reached"
	case TooLarge:
		return "the route has too many communities"
	default:
		return ""
	}
}

// Withheld is a prefix that is not announced to a router, and why.
type Withheld struct {
	Prefix netip.Prefix
	Why    Why
}

// sent is what a router has been told: the key of each prefix's attributes.
type sent map[netip.Prefix]string

// change is what to send to a router.
type change struct {
	// messages that make it so. Routes that are new come before those that go, unless the peer
	// has a maximum.
	messages [][]byte
	// after is what the router has been told then.
	after    sent
	withheld []Withheld
}

// plan compares what a router has been told with what it should be told. again are families
// that are sent as if nothing had been.
func plan(e *encoder, before sent, want Table, maximum int, again [len(lb.Families)]bool) (change, error) {
	c := change{after: make(sent, len(want))}
	var groups [len(lb.Families)]map[string]*group
	for f := range groups {
		groups[f] = map[string]*group{}
	}
	for _, p := range c.limit(e, want, maximum) {
		f := lb.FamilyOf(p.Addr())
		a := want[p]
		made, err := e.encode(f, &a)
		if err != nil {
			return change{}, err
		}
		if made.size > maxAttributes {
			c.withheld = append(c.withheld, Withheld{p, TooLarge})
			continue
		}
		c.after[p] = made.key
		if key, has := before[p]; has && key == made.key && !again[f] {
			continue
		}
		g := groups[f][made.key]
		if g == nil {
			g = &group{attributes: made}
			groups[f][made.key] = g
		}
		g.prefixes = append(g.prefixes, p)
	}
	var gone [len(lb.Families)][]netip.Prefix
	for p := range before {
		if _, stays := c.after[p]; !stays {
			gone[lb.FamilyOf(p.Addr())] = append(gone[lb.FamilyOf(p.Addr())], p)
		}
	}
	news, err := announcements(groups)
	if err != nil {
		return change{}, err
	}
	goodbyes, err := withdrawals(e, gone)
	if err != nil {
		return change{}, err
	}
	if maximum > 0 { // or the router may have too many for a moment
		c.messages = append(goodbyes, news...)
	} else {
		c.messages = append(news, goodbyes...)
	}
	slices.SortFunc(c.withheld, func(a, b Withheld) int { return a.Prefix.Compare(b.Prefix) })
	return c, nil
}

func announcements(groups [len(lb.Families)]map[string]*group) (messages [][]byte, err error) {
	for _, f := range lb.Families {
		for _, key := range slices.Sorted(maps.Keys(groups[f])) {
			g := groups[f][key]
			m, err := pack(f, g.attributes, ordered(g.prefixes))
			if err != nil {
				return nil, err
			}
			messages = append(messages, m...)
		}
	}
	return messages, nil
}

func withdrawals(e *encoder, gone [len(lb.Families)][]netip.Prefix) (messages [][]byte, err error) {
	for _, f := range lb.Families {
		m, err := packWithdrawals(f, e.hops[f], ordered(gone[f]))
		if err != nil {
			return nil, err
		}
		messages = append(messages, m...)
	}
	return messages, nil
}

// group is routes that share attributes.
type group struct {
	*attributes
	prefixes []netip.Prefix
}

// limit returns the prefixes that this session carries, of each family no more than the
// maximum: the oldest.
func (c *change) limit(e *encoder, want Table, maximum int) []netip.Prefix {
	var kept [len(lb.Families)][]netip.Prefix
	for p := range want {
		f := lb.FamilyOf(p.Addr())
		switch {
		case !e.agreed.Families[f]:
			c.withheld = append(c.withheld, Withheld{p, NoFamily})
		case !e.hops[f].IsValid():
			c.withheld = append(c.withheld, Withheld{p, NoNextHop})
		default:
			kept[f] = append(kept[f], p)
		}
	}
	for f, list := range kept {
		if maximum <= 0 || len(list) <= maximum {
			continue
		}
		slices.SortFunc(list, func(a, b netip.Prefix) int {
			return cmp.Or(want[a].Since.Compare(want[b].Since), a.Compare(b))
		})
		for _, p := range list[maximum:] {
			c.withheld = append(c.withheld, Withheld{p, OverMaximum})
		}
		kept[f] = list[:maximum]
	}
	return slices.Concat(kept[:]...)
}

func ordered(prefixes []netip.Prefix) []netip.Prefix {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}
