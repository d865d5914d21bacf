package dhcplease

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

// Names returns the names of the leases that a Service wants.
func (l *Leases) Names(service types.NamespacedName) []string {
	c := l.services[service]
	if c == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.names[:]), func(name string) bool { return name == "" })
}

// Name returns the name of the lease that a Service wants of a family, or "".
func (l *Leases) Name(service types.NamespacedName, f lb.Family) string {
	if c := l.services[service]; c != nil {
		return c.names[f]
	}
	return ""
}

// Addresses returns what this node has leased for a Service.
func (l *Leases) Addresses(service types.NamespacedName) (out []netip.Addr) {
	for _, name := range l.Names(service) {
		if a, ok := l.leased[name]; ok {
			out = append(out, a)
		}
	}
	return out
}

// Lease is one that this node has.
type Lease struct {
	Addr      netip.Addr
	Interface string
	Epoch     uint64
	// Before: the address was had before, so that it is free.
	Before bool
}

// Held returns the lease by that name, if this node has it. Addr is invalid as long
// as no server has assigned one.
func (l *Leases) Held(name string) (Lease, bool) {
	h := l.held[name]
	if h == nil {
		return Lease{}, false
	}
	out := Lease{Interface: h.iface, Epoch: h.epoch}
	if h.lease != nil {
		out.Addr, out.Before = h.lease.Addr, h.had == h.lease.Addr
	}
	return out, true
}

// Len is how many leases this node has, or asks for.
func (l *Leases) Len() int { return len(l.held) }

// Claims are what this node claims.
func (l *Leases) Claims() (out []member.Claim) {
	for name, h := range l.held {
		out = append(out, member.Claim{Key: member.Lease(name), Node: l.o.Node, Epoch: h.epoch, Up: true})
	}
	for name, p := range l.tombstones {
		out = append(out, member.Claim{Key: member.Lease(name), Node: l.o.Node, Epoch: p.epoch, Up: true})
	}
	return out
}
