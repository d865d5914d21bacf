package ipam

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fairlead.io/internal/lb"
)

// TestOffers lets Services come and go, and asks for room on every address and
// for every two ports what a list of all of them says.
func TestOffers(t *testing.T) {
	type tenant struct {
		address netip.Addr
		ports   []lb.Port
	}
	var ports []lb.Port
	for n := range uint16(5) {
		ports = append(ports, lb.Port{Protocol: []string{"TCP", "UDP"}[n%2], Number: n})
	}
	rapid.Check(t, func(t *rapid.T) {
		o := &offers{inUse: map[lb.Port]*[len(lb.Families)]keys{}}
		var tenants []tenant
		at := func(x netip.Addr, wanted ...lb.Port) (someone, collides bool) {
			for _, n := range tenants {
				if n.address == x {
					someone = true
					collides = collides || slices.ContainsFunc(n.ports, func(p lb.Port) bool { return slices.Contains(wanted, p) })
				}
			}
			return someone, collides
		}
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				n := tenant{rapid.SampledFrom(universe).Draw(t, "address"), rapid.SliceOfNDistinct(rapid.SampledFrom(ports), 1, 3, rapid.ID[lb.Port]).Draw(t, "ports")}
				if _, collides := at(n.address, n.ports...); !collides {
					o.add(n.address, n.ports)
					tenants = append(tenants, n)
				}
			},
			"go": func(t *rapid.T) {
				if len(tenants) > 0 {
					i := rapid.IntRange(0, len(tenants)-1).Draw(t, "who")
					n := tenants[i]
					tenants = slices.Delete(tenants, i, i+1)
					someone, _ := at(n.address)
					o.leave(n.address, n.ports, !someone)
				}
			},
			"": func(t *rapid.T) {
				if o.empty() != (len(tenants) == 0) {
					t.Errorf("empty is %v with %v", o.empty(), tenants)
				}
				for _, p := range ports {
					for _, q := range ports {
						for i, from := range universe {
							var want netip.Addr
							for _, x := range universe[i:] {
								if someone, collides := at(x, p, q); someone && !collides && x.Is4() == from.Is4() {
									want = x
									break
								}
							}
							f := lb.FamilyOf(from)
							got, ok := o.next(f, keyOf(from), []lb.Port{p, q})
							if ok != want.IsValid() || ok && got.addr(f) != want {
								t.Fatalf("%v and %v from %s: %s, want %s", p, q, from, got.addr(f), want)
							}
							if someone, collides := at(from, p, q); someone && o.room(from, []lb.Port{p, q}) == collides {
								t.Fatalf("%v and %v on %s: room is %v", p, q, from, collides)
							}
						}
					}
				}
			},
		})
	})
}
