package ipam

import (
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// A Service may ask for several addresses of one family (lb.Request.Several). The
// first of each family is the one that it has like any Service; each other one is an
// extra: an entry of its own, which has that address or nothing. All entries share,
// wait and count towards quotas as if they were Services, and are told as one.

// extraKey names an extra of a Service.
type extraKey struct {
	service types.NamespacedName
	address netip.Addr
}

// entry returns that of a Service, or its extra for x if x is valid; nil if there is
// none.
func (a *Allocator) entry(name types.NamespacedName, x netip.Addr) *service {
	if x.IsValid() {
		return a.extras[extraKey{name, x}]
	}
	return a.services[name]
}

// entries are all of them.
func (a *Allocator) entries() iter.Seq[*service] {
	return func(yield func(*service) bool) {
		for _, s := range a.services {
			if !yield(s) {
				return
			}
		}
		for _, s := range a.extras {
			if !yield(s) {
				return
			}
		}
	}
}

func (a *Allocator) setEntry(name types.NamespacedName, x netip.Addr, s *service) {
	if x.IsValid() {
		a.extras[extraKey{name, x}] = s
		a.extrasOf[name] = append(a.extrasOf[name], x)
		return
	}
	a.services[name] = s
}

func (a *Allocator) dropEntry(name types.NamespacedName, x netip.Addr) {
	if !x.IsValid() {
		delete(a.services, name)
		return
	}
	delete(a.extras, extraKey{name, x})
	a.extrasOf[name] = slices.DeleteFunc(slices.Clone(a.extrasOf[name]), func(y netip.Addr) bool { return y == x })
	if len(a.extrasOf[name]) == 0 {
		delete(a.extrasOf, name)
	}
}

// spread returns r with one address of each family at most, and the others. What the
// Service has already stays its first one. A Service that cannot be understood keeps
// what it has: published, at first sight.
func (a *Allocator) spread(r *lb.Request, published []netip.Addr) (first lb.Request, others []netip.Addr) {
	first = *r
	known := a.extrasOf[r.Service]
	switch {
	case r.Invalid != nil && a.services[r.Service] != nil && a.services[r.Service].req.UID == r.UID:
		return first, known
	case r.Invalid != nil && r.Several:
		return first, a.beyondFirst(r, published)
	case !r.Several || len(r.Addresses) < 2:
		return first, nil
	}
	others = a.beyondFirst(r, r.Addresses)
	first.Addresses = slices.DeleteFunc(slices.Clone(r.Addresses), func(x netip.Addr) bool { return slices.Contains(others, x) })
	return first, others
}

// beyondFirst are the addresses of list that are not the first of their family.
func (a *Allocator) beyondFirst(r *lb.Request, list []netip.Addr) (out []netip.Addr) {
	var has [len(lb.Families)]netip.Addr
	if s := a.services[r.Service]; s != nil && s.req.UID == r.UID {
		has = s.has
	}
	for _, f := range lb.Families {
		of := slices.DeleteFunc(slices.Clone(list), func(x netip.Addr) bool { return lb.FamilyOf(x) != f })
		if i := slices.Index(of, has[f]); i > 0 {
			of[0], of[i] = of[i], of[0]
		}
		if len(of) > 1 {
			out = append(out, of[1:]...)
		}
	}
	return out
}

// extraRequest is what an extra asks for: that address, and nothing else.
func extraRequest(r *lb.Request, x netip.Addr) lb.Request {
	out := *r
	out.Addresses, out.Policy = []netip.Addr{x}, lb.SingleStack
	out.DHCP, out.Leased = [len(lb.Families)]bool{}, nil
	if slices.Contains(r.Families, lb.FamilyOf(x)) {
		out.Families = []lb.Family{lb.FamilyOf(x)} // otherwise the mismatch is told
	}
	return out
}

// Settle decides what the Service of r has, given the addresses that its status
// publishes, and remembers it. The same arguments again give the same verdict.
//
// changed are the other Services whose verdict changed as a consequence, oldest
// first: capacity returned to them, or they lost a contested address.
//
// The Allocator keeps r and the verdict's slices: do not change them.
func (a *Allocator) Settle(r lb.Request, published []netip.Addr) (v lb.Verdict, changed []types.NamespacedName) {
	first, others := a.spread(&r, published)
	if len(others) == 0 && len(a.extrasOf[r.Service]) == 0 {
		return a.settleEntry(first, netip.Addr{}, published)
	}
	for _, x := range slices.Clone(a.extrasOf[r.Service]) {
		if e := a.entry(r.Service, x); !slices.Contains(others, x) || e.req.UID != r.UID {
			a.claimImports()
			a.forgetEntry(r.Service, x)
			changed = append(changed, a.finish(nil)...)
		}
	}
	_, more := a.settleEntry(first, netip.Addr{}, without(published, others))
	changed = append(changed, more...)
	for _, x := range others {
		_, more = a.settleEntry(extraRequest(&r, x), x, only(published, x))
		changed = append(changed, more...)
	}
	v, _ = a.Verdict(r.Service)
	return v, without(changed, []types.NamespacedName{r.Service})
}

func without[T comparable](list, but []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return slices.Contains(but, x) })
}

func only[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return []T{x}
	}
	return nil
}

// Import remembers what a Service publishes without giving it anything else.
// Used for everything there is at start, followed by SettleAll; the order of
// the imports does not matter.
func (a *Allocator) Import(r lb.Request, published []netip.Addr) {
	first, others := a.spread(&r, published)
	a.importEntry(first, netip.Addr{}, without(published, others))
	for _, x := range others {
		a.importEntry(extraRequest(&r, x), x, only(published, x))
	}
}

// Forget lets go of a Service that is deleted or no longer ours, and of all it
// has.
func (a *Allocator) Forget(name types.NamespacedName) (changed []types.NamespacedName) {
	a.claimImports()
	for _, x := range slices.Clone(a.extrasOf[name]) {
		a.forgetEntry(name, x)
	}
	a.forgetEntry(name, netip.Addr{})
	return a.finish(nil)
}

// Verdict returns what was last decided about a Service.
func (a *Allocator) Verdict(name types.NamespacedName) (lb.Verdict, bool) {
	s := a.services[name]
	if s == nil || !s.settled {
		return lb.Verdict{}, false
	}
	extras := a.extrasOf[name]
	if len(extras) == 0 {
		return s.verdict, true
	}
	v, reason := s.verdict, s.verdict.Reason
	v.Addresses, v.Pools = slices.Clone(v.Addresses), slices.Clone(v.Pools)
	for _, x := range extras {
		e := a.entry(name, x)
		if !e.settled {
			continue
		}
		v.Addresses = append(v.Addresses, e.verdict.Addresses...)
		for _, p := range e.verdict.Pools {
			if !slices.Contains(v.Pools, p) {
				v.Pools = append(v.Pools, p)
			}
		}
		if reason.Code == lb.Ready {
			reason = e.verdict.Reason
		}
	}
	if reason.Code == lb.Ready {
		v.Reason = lb.Ready.Say(prose.Addrs(v.Addresses), a.poolNames(v.Pools))
	} else {
		// Our condition names all addresses that are written with it.
		v.Reason = reason.Keeping(v.Addresses)
	}
	return v, true
}

// poolNames is how a sentence says from which pools addresses are.
func (a *Allocator) poolNames(keys []lb.PoolKey) string {
	var names []string
	for _, k := range keys {
		if p := a.byKey[k]; p != nil {
			names = append(names, p.name)
		}
	}
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return "pools " + prose.And(names)
}
