package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// A Service whose backend makes something outside (lb.Request.Lingers) may be reached at
// an address that it has lost, until that is undone. While its status has the address, nobody
// else gets it.

// leave notes that s is about to lose x, before it is released.
func (a *Allocator) leave(s *service, x netip.Addr) {
	if !s.req.Lingers || slices.Contains(a.leaving[x], s) {
		return
	}
	s.leaving = append(s.leaving, x)
	a.leaving[x] = append(slices.Clip(a.leaving[x]), s)
}

// stays notes that s has not lost x after all.
func (a *Allocator) stays(s *service, x netip.Addr) {
	s.leaving = slices.DeleteFunc(s.leaving, func(y netip.Addr) bool { return y == x })
	if a.leaving[x] = without(a.leaving[x], []*service{s}); len(a.leaving[x]) == 0 {
		delete(a.leaving, x)
	}
}

// left lets others have what s has lost and does not publish any more; nil is that this is
// not known.
func (a *Allocator) left(s *service, published []netip.Addr) {
	if published == nil {
		return
	}
	for _, x := range slices.Clone(s.leaving) {
		if !slices.Contains(published, x) {
			a.stays(s, x)
			a.putBack(x)
			a.note(s, x)
		}
	}
}

// refusalOfLeaver says who still is at x, which nobody holds; nil if nobody is.
func (a *Allocator) refusalOfLeaver(s *service, x netip.Addr) *lb.Reason {
	if a.held[x] != nil {
		return nil // those who hold it decide
	}
	for _, other := range a.leaving[x] {
		if other.req.Service != s.req.Service {
			return a.inUse(s, x, other)
		}
	}
	return nil
}
