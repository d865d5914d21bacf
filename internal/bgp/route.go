package bgp

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Community is one of RFC 1997: two numbers of 16 bits.
type Community uint32

// GracefulShutdown is the community of RFC 8326: whoever has another path should use it.
const GracefulShutdown Community = 0xffff0000

func (c Community) String() string { return fmt.Sprintf("%d:%d", c>>16, c&0xffff) }

// LargeCommunity is one of RFC 8092.
type LargeCommunity struct{ Global, Local1, Local2 uint32 }

func (c LargeCommunity) String() string {
	return fmt.Sprintf("large:%d:%d:%d", c.Global, c.Local1, c.Local2)
}

func compareLarge(a, b LargeCommunity) int {
	return cmp.Or(cmp.Compare(a.Global, b.Global), cmp.Compare(a.Local1, b.Local1), cmp.Compare(a.Local2, b.Local2))
}

// Attributes of a route.
type Attributes struct {
	// LocalPref goes to routers of our own AS only; 0 means 100.
	LocalPref uint32
	// Communities in any order; doubles count once.
	Communities      []Community
	LargeCommunities []LargeCommunity
	// Draining asks routers to use other paths first: GracefulShutdown is added, and LOCAL_PREF
	// is 0. The route stays usable.
	Draining bool
	// Since decides which routes are announced where a peer has a maximum: the oldest. It is
	// not sent.
	Since time.Time
}

// Table is all that is announced to one router. Prefixes are valid and masked.
type Table map[netip.Prefix]Attributes

// key appends a canonical form of what is sent.
func (a *Attributes) key(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, a.LocalPref)
	if a.Draining {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	communities := sorted(a.Communities, cmp.Compare[Community])
	b = binary.BigEndian.AppendUint32(b, uint32(len(communities)))
	for _, c := range communities {
		b = binary.BigEndian.AppendUint32(b, uint32(c))
	}
	for _, c := range sorted(a.LargeCommunities, compareLarge) {
		b = binary.BigEndian.AppendUint32(b, c.Global)
		b = binary.BigEndian.AppendUint32(b, c.Local1)
		b = binary.BigEndian.AppendUint32(b, c.Local2)
	}
	return b
}

// sorted returns the list sorted and without doubles; the list itself stays as it is.
func sorted[T comparable](list []T, compare func(a, b T) int) []T {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			list = slices.Clone(list)
			slices.SortFunc(list, compare)
			return slices.Compact(list)
		}
	}
	return list
}
