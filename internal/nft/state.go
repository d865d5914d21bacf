package nft

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// State is everything the tables say, apart from fences.
type State struct {
	// VIPs are all addresses that Services publish.
	VIPs map[netip.Addr]VIP
	// Routed are the addresses that routers lead to this node: sorted, disjoint, not adjacent.
	// What nobody has translated of packets to them is not sent on.
	Routed []netipx.IPRange
}

// VIP is one published address. Only a node that owns it answers for it.
type VIP struct {
	// Ports that Services have on the address: all others are refused.
	Ports []lb.Port
	// Interfaces on which this node answers for the address; none means that
	// the address is another node's.
	Interfaces []string
	// Counted: packets from outside are counted for each port while the address is
	// this node's.
	Counted bool
	// Unclaimed: no agent claims the address, so it may be somebody else's, and
	// packets to it are left alone.
	Unclaimed bool
}

// protocols are those a Service port can have.
var protocols = map[string]byte{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

// element is one element of one of our sets. Key is a string so that elements
// can be compared.
type element struct {
	set *set
	key string
	end bool // the key is behind the end of an interval
}

// normal returns v as it is read back from the kernel: sorted, without
// repetition, without sharing memory with v.
func (v VIP) normal() (VIP, error) {
	n := VIP{Ports: slices.Clone(v.Ports), Interfaces: slices.Clone(v.Interfaces), Unclaimed: v.Unclaimed}
	slices.SortFunc(n.Ports, comparePorts)
	n.Ports = slices.Compact(n.Ports)
	slices.Sort(n.Interfaces)
	n.Interfaces = slices.Compact(n.Interfaces)
	n.Counted = v.Counted && len(n.Ports) > 0 && len(n.Interfaces) > 0
	for _, p := range n.Ports {
		if protocols[p.Protocol] == 0 {
			return VIP{}, fmt.Errorf("protocol %q of port %d is not TCP, UDP or SCTP", p.Protocol, p.Number)
		}
	}
	for _, name := range n.Interfaces {
		if err := checkName(name); err != nil {
			return VIP{}, err
		}
	}
	return n, nil
}

func comparePorts(a, b lb.Port) int {
	if c := strings.Compare(a.Protocol, b.Protocol); c != 0 {
		return c
	}
	return int(a.Number) - int(b.Number)
}

func (v VIP) equal(o VIP) bool {
	return v.Unclaimed == o.Unclaimed && v.Counted == o.Counted && slices.Equal(v.Ports, o.Ports) && slices.Equal(v.Interfaces, o.Interfaces)
}

func checkName(ifname string) error {
	if ifname == "" || len(ifname) >= unix.IFNAMSIZ {
		return fmt.Errorf("%q is not a valid interface name", ifname)
	}
	return nil
}

// elements returns what the sets hold for address a.
func elements(a netip.Addr, v VIP) []element {
	f := lb.FamilyOf(a)
	addr := string(a.AsSlice())
	var out []element
	for _, s := range sets {
		switch {
		case s.kind == kindPublished && s.family == f, s.kind == kindVIPs && s.family == f && !v.Unclaimed:
			out = append(out, element{set: s, key: addr})
		case s.kind == kindOwned && s.family == f:
			for _, name := range v.Interfaces {
				out = append(out, element{set: s, key: pad(name) + addr})
			}
		case s.kind == kindSeen && !v.Counted:
		case (s.kind == kindPorts || s.kind == kindSeen) && s.family == f:
			for _, p := range v.Ports {
				out = append(out, element{set: s, key: addr + portKey(p)})
			}
		}
	}
	return out
}

// pad returns name as the kernel has it in a register: 16 bytes, padded.
func pad(name string) string {
	return name + strings.Repeat("\x00", unix.IFNAMSIZ-len(name))
}

// portKey returns protocol and port as fields of a concatenated key: each is
// padded to four bytes, the port is in network order.
func portKey(p lb.Port) string {
	key := make([]byte, 8)
	key[0] = protocols[p.Protocol]
	binary.BigEndian.PutUint16(key[4:], p.Number)
	return string(key)
}

// portOf is the inverse of portKey.
func portOf(key string) (lb.Port, bool) {
	for name, number := range protocols {
		if key[0] == number {
			return lb.Port{Protocol: name, Number: binary.BigEndian.Uint16([]byte(key[4:]))}, true
		}
	}
	return lb.Port{}, false
}

// assemble is the inverse of elements: it puts elements read from the kernel
// together again. It says whether they are exactly what we would have written
// for that state; if not, somebody else did.
func assemble(all []element) (State, bool) {
	state := State{VIPs: map[netip.Addr]VIP{}}
	routed, wellFormed := intervals(all)
	state.Routed = routed
	all = slices.DeleteFunc(all, func(e element) bool { return e.set.kind == kindRouted })
	for _, e := range all {
		a, rest := e.addr()
		v, known := state.VIPs[a]
		v.Unclaimed = v.Unclaimed || !known // unless it is found among the others
		switch e.set.kind {
		case kindOwned:
			v.Interfaces = append(v.Interfaces, rest)
		case kindPorts:
			if p, ok := portOf(rest); ok {
				v.Ports = append(v.Ports, p)
			}
		case kindSeen:
			v.Counted = true
		case kindVIPs:
			v.Unclaimed = false
		case kindPublished, kindAlive, kindRouted: // the first says no more, the others are not of an address
		}
		state.VIPs[a] = v
	}
	missing := make(map[element]bool, len(all))
	for _, e := range all {
		missing[e] = true
	}
	ours := wellFormed
	for a, v := range state.VIPs {
		normal, err := v.normal()
		if err != nil {
			delete(state.VIPs, a)
			ours = false
			continue
		}
		state.VIPs[a] = normal
		for _, e := range elements(a, normal) {
			ours = ours && missing[e]
			delete(missing, e)
		}
	}
	return state, ours && len(missing) == 0
}

// addr returns the address in the key of e, and what else the key has: the
// interface, or protocol and port.
func (e element) addr() (netip.Addr, string) {
	size := 4
	if e.set.family == lb.IPv6 {
		size = 16
	}
	from := 0
	if e.set.kind == kindOwned {
		from = unix.IFNAMSIZ
	}
	a, _ := netip.AddrFromSlice([]byte(e.key[from : from+size]))
	if e.set.kind == kindOwned {
		return a, strings.TrimRight(e.key[:from], "\x00")
	}
	return a, e.key[size:]
}

// change is what to do with the elements of the sets.
type change struct {
	add, remove []element
	// vips is what is different after it; a nil entry is gone.
	vips map[netip.Addr]*VIP
}

// diff returns how to get from have, which is normal, to want.
func diff(have map[netip.Addr]VIP, want State) (change, error) {
	c := change{vips: map[netip.Addr]*VIP{}}
	seen := 0
	for a, v := range want.VIPs {
		old, known := have[a]
		if known {
			seen++
			// Callers tend to keep what they passed in the order they had it in.
			if old.equal(v) {
				continue
			}
		}
		if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
			return change{}, fmt.Errorf("%v is not an address of a Service", a)
		}
		normal, err := v.normal()
		if err != nil {
			return change{}, fmt.Errorf("%v: %w", a, err)
		}
		c.replace(a, old, known, &normal)
	}
	if seen < len(have) {
		for a, old := range have {
			if _, keep := want.VIPs[a]; !keep {
				c.replace(a, old, true, nil)
			}
		}
	}
	return c, nil
}

func (c *change) replace(a netip.Addr, old VIP, known bool, v *VIP) {
	gone := map[element]bool{}
	if known {
		for _, e := range elements(a, old) {
			gone[e] = true
		}
	}
	changed := false
	if v != nil {
		for _, e := range elements(a, *v) {
			if gone[e] {
				delete(gone, e)
				continue
			}
			changed = true
			c.add = append(c.add, e)
		}
	}
	c.remove = slices.AppendSeq(c.remove, maps.Keys(gone))
	if changed || len(gone) > 0 {
		c.vips[a] = v
	}
}
