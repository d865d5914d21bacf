package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

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

// serviceIn is the Service's address in a key, as it is there.
func serviceIn(f lb.Family, key string) string {
	size := int(addrLen(f))
	return key[4+size+4:][:size]
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
	f, iface, ok := tuplesOf(set)
	if !ok {
		return Carried{}, false
	}
	c, ok := tupleOf(f, key)
	to, whole := netip.AddrFromSlice(via)
	if !ok || !whole || len(via) != int(addrLen(f)) {
		return Carried{}, false
	}
	return Carried{Conn: c, Via: to, Interface: iface}, true
}

// encodeCarried returns elements with their values, and those that are to go.
func encodeCarried(add, remove []Carried) (want map[carryKey]string, gone []carryKey, err error) {
	want = make(map[carryKey]string, len(add))
	for _, c := range add {
		k, err := c.element()
		if err != nil {
			return nil, nil, err
		}
		if c.Via.BitLen() != c.Client.Addr().BitLen() || c.Via.Is4In6() {
			return nil, nil, fmt.Errorf("connections to %v cannot be sent to %v", c.Service, c.Via)
		}
		want[k] = string(c.Via.AsSlice())
	}
	seen := map[carryKey]bool{}
	for _, c := range remove {
		k, err := c.element()
		if err != nil {
			return nil, nil, err
		}
		if _, added := want[k]; !added && !seen[k] {
			seen[k] = true
			gone = append(gone, k)
		}
	}
	return want, gone, nil
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
	return carryKey{tuplesName(lb.FamilyOf(to), c.Interface), tupleKey(c.Conn)}, nil
}

func tuplesName(f lb.Family, iface string) string { return "tuples" + version(f) + "-" + iface }

// tuplesOf is the inverse of tuplesName.
func tuplesOf(set string) (f lb.Family, iface string, ok bool) {
	for _, f := range lb.Families {
		if iface, is := strings.CutPrefix(set, tuplesName(f, "")); is && checkName(iface) == nil {
			return f, iface, true
		}
	}
	return 0, "", false
}
