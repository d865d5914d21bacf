package ipam

import (
	"net/netip"
	"slices"
	"sort"

	"fairlead.io/internal/lb"
)

// group is what Services have in common that come to live on one address: key and
// backends as long as they do, among at first.
type group struct{ key, backends, among string }

// groupOf is the group of r on addresses of family f; one without a key is none.
func groupOf(r *lb.Request, f lb.Family) group {
	if r.ShareOnly != nil && *r.ShareOnly != f {
		return group{}
	}
	return group{r.ShareKey, r.Backends, r.ShareAmong}
}

// choosy says whether the Service of r takes not all new neighbours with whom it
// could live on an address.
func choosy(r *lb.Request) bool { return r.Alone || r.ShareAmong != "" }

// joinable says whether the Service of r takes new neighbours on addresses of
// family f.
func joinable(r *lb.Request, f lb.Family) bool { return !r.Alone && groupOf(r, f).key != "" }

// offers are the addresses that the Services of one group have, and on which of
// them a port is in use: so an address with room for a Service is found without
// a look at those that have none, be they one or ten thousand.
type offers struct {
	all   [len(lb.Families)]keys
	inUse map[lb.Port]*[len(lb.Families)]keys
}

// keys is a sorted set of addresses of one family.
type keys []key

func (s keys) search(k key) (int, bool) { return slices.BinarySearchFunc(s, k, key.compare) }

func (s *keys) add(k key) {
	if i, found := s.search(k); !found {
		*s = slices.Insert(*s, i, k)
	}
}

func (s *keys) remove(k key) {
	if i, found := s.search(k); found {
		*s = slices.Delete(*s, i, i+1)
	}
}

// add notes that a Service with these ports has address.
func (o *offers) add(address netip.Addr, ports []lb.Port) {
	f, k := lb.FamilyOf(address), keyOf(address)
	o.all[f].add(k)
	for _, p := range ports {
		u := o.inUse[p]
		if u == nil {
			u = new([len(lb.Families)]keys)
			o.inUse[p] = u
		}
		u[f].add(k)
	}
}

// leave notes that a Service with these ports has left address; last says that
// nobody is there any more.
func (o *offers) leave(address netip.Addr, ports []lb.Port, last bool) {
	f, k := lb.FamilyOf(address), keyOf(address)
	if last {
		o.all[f].remove(k)
	}
	for _, p := range ports {
		if u := o.inUse[p]; u != nil {
			u[f].remove(k)
			if len(u[lb.IPv4])+len(u[lb.IPv6]) == 0 {
				delete(o.inUse, p)
			}
		}
	}
}

// empty says whether the group has no address.
func (o *offers) empty() bool { return len(o.all[lb.IPv4])+len(o.all[lb.IPv6]) == 0 }

// room says whether none of the ports is in use on address.
func (o *offers) room(address netip.Addr, ports []lb.Port) bool {
	f, k := lb.FamilyOf(address), keyOf(address)
	for _, p := range ports {
		if u := o.inUse[p]; u != nil {
			if _, found := u[f].search(k); found {
				return false
			}
		}
	}
	return true
}

// next returns the first address of family f, at from or above, with room for
// these ports.
func (o *offers) next(f lb.Family, from key, ports []lb.Port) (key, bool) {
	all := o.all[f]
	i, _ := all.search(from)
	for i < len(all) {
		began := i
		for _, p := range ports {
			if u := o.inUse[p]; u != nil && i < len(all) {
				i += all[i:].run(u[f])
			}
		}
		if i == began {
			return all[i], true
		}
	}
	return key{}, false
}

// run returns how many of the first keys of s are all in sub, which is a subset
// of s. The n-th key of sub is never below the n-th of s, and where they are the
// same, all before them are.
func (s keys) run(sub keys) int {
	i, found := sub.search(s[0])
	if !found {
		return 0
	}
	sub = sub[i:]
	return sort.Search(len(sub), func(n int) bool { return s[n] != sub[n] })
}
