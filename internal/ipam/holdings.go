package ipam

import (
	"iter"
	"net/netip"

	"fairlead.io/internal/lb"
)

// users goes through the Services that hold one address: those of a family are
// linked to each other, so that an address with one user needs nothing more
// than its place in the map.
func users(head *service, f lb.Family) iter.Seq[*service] {
	return func(yield func(*service) bool) {
		for u := head; u != nil; u = u.next[f] {
			if !yield(u) {
				return
			}
		}
	}
}

func namespaceHas(head *service, f lb.Family, namespace string) bool {
	for u := head; u != nil; u = u.next[f] {
		if u.req.Service.Namespace == namespace {
			return true
		}
	}
	return false
}

// take gives address to s, which has none of that family. Whether it may have
// it has been decided before.
func (a *Allocator) take(s *service, address netip.Addr) {
	f := lb.FamilyOf(address)
	head := a.held[address]
	for _, p := range a.cover.pools(address) {
		n, ok := p.numberOf(address)
		if !ok {
			continue
		}
		if head == nil {
			p.withdraw(f, n)
			p.used[f]++
		}
		if p.perNamespace != nil && !namespaceHas(head, f, s.req.Service.Namespace) {
			p.perNamespace[s.req.Service.Namespace]++
		}
	}
	s.has[f], s.next[f], s.rank[f], s.noted[f] = address, head, lb.Proven, 0
	a.held[address] = s
	a.offer(s, address)
}

// release is the inverse of take.
func (a *Allocator) release(s *service, f lb.Family) {
	address := s.has[f]
	if !address.IsValid() {
		return
	}
	head := a.held[address]
	if head == s {
		head = s.next[f]
	} else {
		for u := head; ; u = u.next[f] {
			if u.next[f] == s {
				u.next[f] = s.next[f]
				break
			}
		}
	}
	s.has[f], s.next[f] = netip.Addr{}, nil
	a.refund(s, f)
	if head == nil {
		delete(a.held, address)
	} else {
		a.held[address] = head
	}
	a.unoffer(s, address, head)
	out := a.isOut(address)
	for _, p := range a.cover.pools(address) {
		n, ok := p.numberOf(address)
		if !ok {
			continue
		}
		if head == nil {
			if !out {
				p.putBack(f, n)
			}
			p.used[f]--
		}
		if p.perNamespace != nil && !namespaceHas(head, f, s.req.Service.Namespace) {
			if p.perNamespace[s.req.Service.Namespace]--; p.perNamespace[s.req.Service.Namespace] == 0 {
				delete(p.perNamespace, s.req.Service.Namespace)
			}
		}
	}
}

// restore gives s exactly the addresses in was, which it has released at most
// since nobody else could take them.
func (a *Allocator) restore(s *service, was [len(lb.Families)]netip.Addr) {
	rank, noted := s.rank, s.noted
	for _, f := range lb.Families {
		if s.has[f] != was[f] {
			a.release(s, f)
		}
	}
	for _, f := range lb.Families {
		if s.has[f] != was[f] {
			a.take(s, was[f])
			s.rank[f], s.noted[f] = rank[f], noted[f]
		}
	}
}

// isOut says whether address is kept out of what is free, whoever holds it.
func (a *Allocator) isOut(address netip.Addr) bool {
	if _, ok := a.reserved[address]; ok {
		return true
	}
	if _, ok := a.owned[address]; ok {
		return true
	}
	if _, ok := a.leaving[address]; ok {
		return true
	}
	if _, ok := a.clusterIPs[address]; ok {
		return true
	}
	return a.networks.of(address) != ""
}

// withdraw takes address out of what is free, if it is.
func (a *Allocator) withdraw(address netip.Addr) {
	for _, p := range a.cover.pools(address) {
		if n, ok := p.numberOf(address); ok {
			p.withdraw(lb.FamilyOf(address), n)
		}
	}
}

// putBack is the inverse of withdraw, if nothing else keeps address out.
func (a *Allocator) putBack(address netip.Addr) {
	if a.held[address] != nil || a.isOut(address) {
		return
	}
	for _, p := range a.cover.pools(address) {
		if n, ok := p.numberOf(address); ok {
			p.putBack(lb.FamilyOf(address), n)
		}
	}
}

// recount takes an address that is held into the account of new pools.
func (a *Allocator) recount(address netip.Addr, head *service) {
	f := lb.FamilyOf(address)
	for _, p := range a.cover.pools(address) {
		n, ok := p.numberOf(address)
		if !ok {
			continue
		}
		p.withdraw(f, n)
		p.used[f]++
		if p.perNamespace == nil {
			continue
		}
		for u := range users(head, f) {
			// Each namespace counts at its last user.
			if !namespaceHas(u.next[f], f, u.req.Service.Namespace) {
				p.perNamespace[u.req.Service.Namespace]++
			}
		}
	}
}
