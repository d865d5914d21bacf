package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Owners says which addresses belong to others than Services: they are given to nobody.
// A Service that has one of them keeps it, with a warning.
type Owners struct {
	// Nodes has the addresses of nodes, and the names of these.
	Nodes map[netip.Addr]string
	// Interfaces has what else is on interfaces of nodes. Another program may have put
	// a Service's address there: what a Service has when this is said does not count.
	Interfaces map[netip.Addr]string
	// Others has further addresses, and what they are ("the gateway of node worker-1").
	Others map[netip.Addr]string
	// Networks whose addresses all belong to the cluster. They are taken out of pools
	// as a whole, so their size does not matter.
	Networks []Network
}

// Network of addresses that belong to the cluster.
type Network struct {
	netip.Prefix
	Is string // what it is ("the network of the pods of node worker-1")
}

// owned is whose an address is.
type owned struct {
	node string // its name, "" if it is not a node's
	is   string // what it is otherwise
}

// Anew returns an Allocator without pools and Services. It has the words of a, and knows
// the ClusterIPs and external IPs that a knows.
func (a *Allocator) Anew() *Allocator {
	n := New()
	n.words = a.words
	n.clusterIPs = maps.Clone(a.clusterIPs)
	for x, services := range a.external {
		n.external[x] = slices.Clone(services)
	}
	return n
}

// SetOwners replaces what is known of owners. It returns the Services whose verdict
// changed, oldest first.
func (a *Allocator) SetOwners(o Owners) (changed []types.NamespacedName) {
	// What is only asserted waits until it is known whose it is.
	a.claimImportsUpTo(lb.Reported)
	now := make(map[netip.Addr]owned, len(o.Nodes)+len(o.Interfaces)+len(o.Others))
	for x, node := range o.Interfaces {
		if was := a.owned[x]; a.held[x] == nil || was.node != "" {
			now[x] = owned{node: node}
		}
	}
	for x, what := range o.Others {
		now[x] = owned{is: what}
	}
	for x, node := range o.Nodes {
		now[x] = owned{node: node}
	}
	var differ []netip.Addr
	for x, is := range now {
		if a.owned[x] != is {
			differ = append(differ, x)
		}
	}
	for x := range a.owned {
		if _, ok := now[x]; !ok {
			differ = append(differ, x)
		}
	}
	a.owned = now
	if networks := newNetworks(slices.Clone(o.Networks)); !networks.equal(a.networks) {
		a.networks = networks
		a.rebuild()
		return a.finish(nil)
	}
	return a.reown(differ)
}

// SetClusterIP says that a Service has x as its ClusterIP. It returns the Services whose
// verdict changed.
func (a *Allocator) SetClusterIP(x netip.Addr, service string) (changed []types.NamespacedName) {
	if a.clusterIPs[x] == service {
		return nil
	}
	a.clusterIPs[x] = service
	return a.clusterIPChanged(x)
}

// UnsetClusterIP says that a Service does not have x any more. Another one may have it by
// now: watches that were away tell what came before what went.
func (a *Allocator) UnsetClusterIP(x netip.Addr, service string) (changed []types.NamespacedName) {
	if a.clusterIPs[x] != service {
		return nil
	}
	delete(a.clusterIPs, x)
	return a.clusterIPChanged(x)
}

func (a *Allocator) clusterIPChanged(x netip.Addr) (changed []types.NamespacedName) {
	if !a.InPool(x) && a.held[x] == nil && a.waitAddress[x] == nil {
		return nil // nobody is concerned, as with nearly all of them
	}
	a.claimImports()
	return a.reown([]netip.Addr{x})
}

// SetExternalIPs says which external IPs a Service names in its spec, and which it
// named before. Whoever can write a Service can name any: they keep others only from
// addresses outside of pools.
func (a *Allocator) SetExternalIPs(service types.NamespacedName, before, now []netip.Addr) (changed []types.NamespacedName) {
	var differ []netip.Addr
	for _, x := range before {
		names := a.external[x]
		if i := slices.Index(names, service); i >= 0 && !slices.Contains(now, x) {
			differ = append(differ, x)
			if a.external[x] = slices.Delete(names, i, i+1); len(a.external[x]) == 0 {
				delete(a.external, x)
			}
		}
	}
	for _, x := range now {
		if !slices.Contains(a.external[x], service) {
			differ = append(differ, x)
			a.external[x] = append(a.external[x], service)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	a.claimImports()
	return a.reown(differ)
}

// reown takes into account that the owners of addresses have changed.
func (a *Allocator) reown(differ []netip.Addr) (changed []types.NamespacedName) {
	slices.SortFunc(differ, netip.Addr.Compare)
	var todo []*service
	for _, x := range differ {
		if a.isOut(x) {
			a.withdraw(x)
		} else {
			a.putBack(x)
		}
		a.notes = append(a.notes, note{address: x})
		for u := range users(a.held[x], lb.FamilyOf(x)) {
			if u.settled {
				todo = append(todo, u)
			}
		}
	}
	slices.SortFunc(todo, byAge)
	a.wake(todo)
	return a.finish(nil)
}

// node is the node that has x, "" if none has.
func (a *Allocator) node(x netip.Addr) string { return a.owned[x].node }

// owner says what x is that belongs to the cluster, "" if it does not. Nodes are
// another matter. Link-local addresses are nobody's, unless a pool hands them out.
func (a *Allocator) owner(x netip.Addr) string {
	if is, ok := a.owned[x]; ok {
		return is.is
	}
	if service, ok := a.clusterIPs[x]; ok {
		return "the ClusterIP of Service " + service
	}
	if x.IsLinkLocalUnicast() && !slices.ContainsFunc(a.cover.pools(x), func(p *pool) bool { return p.LinkLocal }) {
		return "link-local"
	}
	return a.networks.of(x)
}

// externalIPOf says of which other Service x is an external IP, "" if of none.
func (a *Allocator) externalIPOf(x netip.Addr, but types.NamespacedName) string {
	for _, service := range a.external[x] {
		if service != but {
			return "an external IP of Service " + service.String()
		}
	}
	return ""
}

// leaveClusterIPs takes from s what is the ClusterIP of a Service: announcing it would
// cut off all pods that use that.
func (a *Allocator) leaveClusterIPs(s *service) {
	for _, f := range lb.Families {
		if _, is := a.clusterIPs[s.has[f]]; is {
			a.release(s, f)
			s.leased[f] = false
		}
	}
}

// networks are disjoint and sorted, for each family.
type networks [len(lb.Families)][]owns

type owns struct {
	interval
	is string
}

// linkLocals are good on one link only. The cloud's metadata service is among them.
var linkLocals = func() networks {
	var all []Network
	for _, p := range lb.LinkLocals() {
		all = append(all, Network{p, lb.LinkLocal})
	}
	return newNetworks(all)
}()

// newNetworks leaves out networks within others.
func newNetworks(list []Network) (out networks) {
	slices.SortFunc(list, func(p, q Network) int {
		return cmp.Or(cmp.Compare(p.Bits(), q.Bits()), p.Addr().Compare(q.Addr()), cmp.Compare(p.Is, q.Is))
	})
	for _, n := range list {
		if r := netipx.RangeOfPrefix(n.Prefix); r.IsValid() && out.of(r.From()) == "" {
			f := lb.FamilyOf(r.From())
			at, _ := slices.BinarySearchFunc(out[f], keyOf(r.From()), func(o owns, k key) int { return o.from.compare(k) })
			out[f] = slices.Insert(out[f], at, owns{interval{keyOf(r.From()), keyOf(r.To())}, n.Is})
		}
	}
	return out
}

func (n *networks) of(x netip.Addr) string {
	all, k := n[lb.FamilyOf(x)], keyOf(x)
	at, found := slices.BinarySearchFunc(all, k, func(o owns, k key) int { return o.from.compare(k) })
	if found {
		return all[at].is
	}
	if at > 0 && !all[at-1].to.less(k) {
		return all[at-1].is
	}
	return ""
}

func (n *networks) equal(o networks) bool {
	for _, f := range lb.Families {
		if !slices.Equal(n[f], o[f]) {
			return false
		}
	}
	return true
}
