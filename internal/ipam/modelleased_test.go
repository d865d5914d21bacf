package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// What the model knows of leased addresses, of those outside of pools, and of
// Services that are alone.

func (m *model) leases(o *owner, f lb.Family) bool {
	r := &o.req
	if r.Invalid != nil || !slices.Contains(wanted(r), f) || slices.ContainsFunc(r.Addresses, func(x netip.Addr) bool { return lb.FamilyOf(x) == f }) {
		return false
	}
	if r.DHCP[f] {
		return true
	}
	if _, ok := o.has[f]; ok {
		return o.leased[f]
	}
	return m.standsFor(o, f)
}

// standsFor says whether a pool stands for a DHCP server for o.
func (m *model) standsFor(o *owner, f lb.Family) (yes bool) {
	for _, p := range m.candidates(o) {
		yes = yes || p.DHCP[f]
		if slices.ContainsFunc(members(p), func(x netip.Addr) bool { return lb.FamilyOf(x) == f }) {
			return false
		}
	}
	return yes
}

// lease gives o what DHCP servers gave it; only if it moves does it leave another
// address for that.
func (m *model) lease(o *owner, moves bool) {
	for _, f := range lb.Families {
		if _, has := o.has[f]; has && !o.leased[f] && !moves {
			continue
		}
		if o.leased[f] = m.leases(o, f); !o.leased[f] {
			o.charged[f] = lb.PoolKey{}
			continue
		}
		was, had := o.has[f]
		held := o.charged[f]
		delete(o.has, f)
		if !slices.ContainsFunc(o.req.Leased, func(x netip.Addr) bool { return lb.FamilyOf(x) == f }) {
			o.leased[f] = m.leases(o, f)
		}
		for _, x := range o.req.Leased {
			if lb.FamilyOf(x) != f {
				continue
			}
			free := m.nodes[x] == "" && (len(m.holders(x)) == 0 || m.rival(o, x) == nil && !m.exclusive(x) && !m.kept(o, x))
			p := m.charge(o, f)
			switch {
			case had && was == x:
				o.has[f], o.charged[f] = x, held
				if held.Name == "" {
					o.charged[f] = p.Key
				}
			case free && (p.Quota == 0 || m.quotaAllows(p, o, x)):
				o.has[f], o.charged[f] = x, p.Key
			}
			break
		}
	}
}

func (m *model) loses(o *owner, was map[lb.Family]netip.Addr) {
	for f, x := range was {
		if o.has[f] != x {
			o.lost = append(o.lost, x)
		}
	}
}

func (m *model) anywhere(o *owner, x netip.Addr) bool {
	return o.req.Anywhere && o.req.Pool == "" && slices.Contains(o.req.Addresses, x)
}

// kept says whether o cannot come to share x because it, or another, is choosy.
func (m *model) kept(o *owner, x netip.Addr) bool {
	return slices.ContainsFunc(m.holders(x), func(h *owner) bool {
		return h != o && (o.req.Alone || h.req.Alone || o.req.ShareAmong != h.req.ShareAmong)
	})
}

// countLeases is how many leases of a namespace the quota of p counts.
func (m *model) countLeases(p lb.Pool, namespace string) (n int) {
	for _, o := range m.services {
		for f, x := range o.has {
			if o.leased[f] && o.charged[f] == p.Key && o.req.Service.Namespace == namespace && !slices.Contains(members(p), x) {
				n++
			}
		}
	}
	return n
}

// chargeAll has every lease counted by the pools that there are now.
func (m *model) chargeAll() {
	for _, o := range m.services {
		for _, f := range lb.Families {
			o.charged[f] = m.charge(o, f).Key
		}
	}
}

// charge returns the pool whose quota counts what o leases.
func (m *model) charge(o *owner, f lb.Family) (found lb.Pool) {
	stands := m.standsFor(o, f)
	for _, p := range m.candidates(o) {
		if found.Key.Name == "" && (stands && p.DHCP[f] || !stands && p.Quota != 0) {
			found = p
		}
	}
	return found
}
