package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
)

// A key of a map of connections is protocol, client, its port, Service, its port. Each field
// is padded to four bytes.
func tupleKey(c conntrack.Conn) string {
	b := make([]byte, 0, 44)
	b = append(b, c.Protocol, 0, 0, 0)
	for _, end := range []netip.AddrPort{c.Client, c.Service} {
		b = append(b, end.Addr().AsSlice()...)
		b = append(binary.BigEndian.AppendUint16(b, end.Port()), 0, 0)
	}
	return string(b)
}

func tupleLen(f lb.Family) int { return 4 + 2*(int(addrLen(f))+4) }

// pairKey is client and Service.
func pairKey(c conntrack.Conn) string {
	return string(c.Client.Addr().AsSlice()) + string(c.Service.Addr().AsSlice())
}

// tupleOf is the inverse of tupleKey.
func tupleOf(f lb.Family, key []byte) (conntrack.Conn, bool) {
	if len(key) != tupleLen(f) || key[0] != unix.IPPROTO_TCP && key[0] != unix.IPPROTO_UDP {
		return conntrack.Conn{}, false
	}
	size := int(addrLen(f))
	end := func(at int) netip.AddrPort {
		a, _ := netip.AddrFromSlice(key[at : at+size])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(key[at+size:]))
	}
	c := conntrack.Conn{Protocol: key[0], Client: end(4), Service: end(4 + size + 4)}
	return c, tupleKey(c) == string(key) // or somebody else wrote it
}

// decodeCarried reads an element of a map.
func decodeCarried(set string, key, via []byte) (Carried, bool) {
	kind, f, iface, ok := carrySetOf(set)
	if !ok || kind != kindTuples {
		return Carried{}, false
	}
	c, ok := tupleOf(f, key)
	to, whole := netip.AddrFromSlice(via)
	if !ok || !whole || len(via) != int(addrLen(f)) {
		return Carried{}, false
	}
	return Carried{Conn: c, Via: to, Interface: iface}, true
}

// carryElements are elements with their values.
type carryElements map[carryKey]string

// encodeCarried returns the elements of connections, and those that are to go. One that cannot be
// carried is out, and stops no other. Who has a connection with an address may be removed late:
// packets are not sent on because of that alone.
func encodeCarried(add, remove []Carried) (want carryElements, gone []carryKey, out LeftOutError) {
	want = make(carryElements, 2*len(add))
	for _, c := range add {
		k, err := c.element()
		if err == nil && (c.Via.BitLen() != c.Client.Addr().BitLen() || c.Via.Is4In6()) {
			err = fmt.Errorf("connections to %v cannot be sent to %v", c.Service, c.Via)
		}
		if err != nil {
			out.Carried, out.Why = append(out.Carried, c), err
			continue
		}
		want[k] = string(c.Via.AsSlice())
		want[carryKey{carrySetName(kindPairs, lb.FamilyOf(c.Via), c.Interface), pairKey(c.Conn)}] = want[k]
	}
	seen := map[carryKey]bool{}
	for _, c := range remove {
		k, err := c.element()
		if err != nil {
			continue // it was never there
		}
		if _, added := want[k]; !added && !seen[k] {
			seen[k] = true
			gone = append(gone, k)
		}
	}
	return want, gone, out
}

func (c Carried) element() (carryKey, error) {
	from, to := c.Client.Addr(), c.Service.Addr()
	if err := checkName(c.Interface); err != nil {
		return carryKey{}, err
	}
	if err := checkCarried(to); err != nil {
		return carryKey{}, err
	}
	if from.Is4In6() || from.Zone() != "" || from.BitLen() != to.BitLen() || c.Protocol != unix.IPPROTO_TCP && c.Protocol != unix.IPPROTO_UDP {
		return carryKey{}, fmt.Errorf("protocol %d from %v to %v is not a connection that can be sent on", c.Protocol, c.Client, c.Service)
	}
	return carryKey{carrySetName(kindTuples, lb.FamilyOf(to), c.Interface), tupleKey(c.Conn)}, nil
}

// Kinds of sets that have elements for connections.
const (
	kindTuples = "tuples"
	kindPairs  = "pairs"
)

func carrySetName(kind string, f lb.Family, iface string) string {
	return kind + version(f) + "-" + iface
}

// carrySetOf is the inverse of carrySetName.
func carrySetOf(name string) (kind string, f lb.Family, iface string, ok bool) {
	for _, kind := range []string{kindTuples, kindPairs} {
		for _, f := range lb.Families {
			if iface, is := strings.CutPrefix(name, carrySetName(kind, f, "")); is && checkName(iface) == nil {
				return kind, f, iface, true
			}
		}
	}
	return "", 0, "", false
}

// carrySet is the set with that name.
func carrySet(name string) *nftables.Set {
	kind, f, iface, _ := carrySetOf(name)
	if kind == kindPairs {
		return pairs(f, iface)
	}
	return tuples(f, iface)
}

// isConnection says whether the element is a connection: the others come with one.
func (k carryKey) isConnection() bool { return strings.HasPrefix(k.set, kindTuples) }

// service is the Service's address in a key: behind the client's, and behind its port if
// it has one.
func (k carryKey) service() (lb.Family, string) {
	kind, f, _, _ := carrySetOf(k.set)
	size := int(addrLen(f))
	if kind == kindPairs {
		return f, k.key[size:]
	}
	return f, k.key[4+size+4:][:size]
}
