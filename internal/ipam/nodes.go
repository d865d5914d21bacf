package ipam

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// SetNodes says which addresses belong to nodes, and to which: they are never
// handed out. It returns the Services whose verdict changed, oldest first.
func (a *Allocator) SetNodes(nodes map[netip.Addr]string) (changed []types.NamespacedName) {
	a.claimImports()
	was := a.nodes
	a.nodes = maps.Clone(nodes)
	var todo []*service
	differs := func(address netip.Addr) {
		a.notes = append(a.notes, note{address: address})
		for u := range users(a.held[address], lb.FamilyOf(address)) {
			if u.settled {
				todo = append(todo, u)
			}
		}
	}
	for address, node := range nodes {
		if before, ok := was[address]; !ok {
			a.withdraw(address)
			differs(address)
		} else if before != node {
			differs(address)
		}
	}
	for address := range was {
		if _, ok := nodes[address]; !ok {
			a.putBack(address)
			differs(address)
		}
	}
	slices.SortFunc(todo, byAge)
	a.wake(todo)
	return a.finish(nil)
}
