package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Holder is a router or a switch that is there.
type Holder struct{ Table, UUID, Name string }

func (h Holder) String() string {
	if h.Table == tableSwitch {
		return "switch " + h.Name
	}
	return "router " + h.Name
}

// Rival is a row of somebody else with a virtual address of a Service, on its router or a
// switch. Elsewhere says that it is on another router: then VIP has no port.
type Rival struct {
	VIP, Protocol string // that the Service is to have
	UUID, Name    string
	On            Holder
	Elsewhere     bool
	Ours          bool // of another Service of this cluster
}

// Seen is what the database has of one Service, and of what it needs.
type Seen struct {
	Cluster string
	Owned   []*LoadBalancer // the Service's rows, sorted by UUID
	Others  []*LoadBalancer // rows of others with a name that a row of the Service has
	Held    map[string][]Holder
	// Holders are the router and the switches that the Service is to have; Missing are
	// the names of those that are not there.
	Holders         []Holder
	RouterMissing   bool
	MissingSwitches []string
	Rivals          []Rival
	Networks        []netip.Prefix // of the router's ports
	// Gateways are the names of the router's ports with gateway chassis. A router that is
	// on one chassis as a whole needs none.
	Gateways      []string
	GatewayRouter bool
	Version       string // of northd

	Filters   []*Filter  // the Service's, sorted by UUID
	Entrances []Entrance // of the router, sorted by name; only for Services with sources
}

// observe returns what concerns a Service. Nothing of it changes later.
func (r *replica) observe(s *Service) *Seen {
	out := &Seen{Cluster: r.cluster, Held: map[string][]Holder{}, Version: r.version}
	out.Owned = r.clones(r.byOwner[s.Key()])
	if len(s.Listeners) == 0 {
		r.observeFilters(s, out)
		return out
	}
	namesakes := set{}
	for _, protocol := range Protocols {
		for id := range r.byName[s.RowName(protocol)] {
			if r.balancers[id].owner(r.cluster) != s.Key() {
				namesakes[id] = struct{}{}
			}
		}
	}
	out.Others = r.clones(namesakes)
	for _, l := range slices.Concat(out.Owned, out.Others) {
		for id := range r.heldBy[l.UUID] {
			if h := r.holders[id]; h != nil {
				out.Held[l.UUID] = append(out.Held[l.UUID], Holder{h.table(), id, h.name})
			}
		}
		slices.SortFunc(out.Held[l.UUID], compareHolders)
	}
	r.observePlace(s, out)
	r.observeFilters(s, out)
	r.observeRivals(s, out)
	r.observeElsewhere(s, out)
	return out
}

func compareHolders(a, b Holder) int {
	return strings.Compare(a.Table+" "+a.Name+" "+a.UUID, b.Table+" "+b.Name+" "+b.UUID)
}

func (r *replica) clones(ids set) []*LoadBalancer {
	out := make([]*LoadBalancer, 0, len(ids))
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		out = append(out, r.balancers[id].clone())
	}
	return out
}

// observePlace looks for the router and the switches. Names are not unique in OVN: all
// that have one are meant.
func (r *replica) observePlace(s *Service, out *Seen) {
	find := func(table, name string) bool {
		ids := slices.Sorted(maps.Keys(r.byHolderName[holderKey(table, name)]))
		for _, id := range ids {
			out.Holders = append(out.Holders, Holder{table, id, name})
		}
		return len(ids) > 0
	}
	out.RouterMissing = !find(tableRouter, s.Router)
	for _, h := range out.Holders {
		router := r.holders[h.UUID]
		out.GatewayRouter = out.GatewayRouter || router.options["chassis"] != ""
		for id := range router.ports {
			if p := r.ports[id]; p != nil {
				out.Networks = append(out.Networks, p.networks...)
				if p.gateway() {
					out.Gateways = append(out.Gateways, p.name)
				}
			}
		}
	}
	slices.SortFunc(out.Networks, netip.Prefix.Compare)
	slices.Sort(out.Gateways)
	for _, name := range s.Switches {
		if !find(tableSwitch, name) {
			out.MissingSwitches = append(out.MissingSwitches, name)
		}
	}
}

// observeRivals looks for rows of others with an address of the Service. One without a
// port has all of its ports.
func (r *replica) observeRivals(s *Service, out *Seen) {
	for _, l := range s.Listeners {
		vip := l.VIP.String()
		for _, key := range []string{vip, l.VIP.Addr().String()} {
			for _, id := range slices.Sorted(maps.Keys(r.byVIP[key])) {
				other := r.balancers[id]
				if other.owner(r.cluster) == s.Key() || key == vip && other.protocol() != l.Protocol {
					continue
				}
				for _, h := range out.Holders {
					if r.serves(h.UUID, id) {
						out.Rivals = append(out.Rivals, Rival{VIP: vip, Protocol: l.Protocol, UUID: id, Name: other.Name, On: h, Ours: other.owner(r.cluster) != ""})
						break
					}
				}
			}
		}
	}
}

// observeElsewhere looks for rows of other Services of the cluster that have an address of
// the Service on another router, whatever their ports are.
func (r *replica) observeElsewhere(s *Service, out *Seen) {
	if !s.Sole {
		return
	}
	looked := map[netip.Addr]bool{}
	for _, l := range s.Listeners {
		address := l.VIP.Addr()
		if looked[address] {
			continue
		}
		looked[address] = true
		for _, id := range slices.Sorted(maps.Keys(r.byAddress[address.String()])) {
			other := r.balancers[id]
			if other.owner(r.cluster) == s.Key() {
				continue
			}
			for _, holder := range slices.Sorted(maps.Keys(r.heldBy[id])) {
				if h := r.holders[holder]; h != nil && !h.isSwitch && h.name != s.Router {
					out.Rivals = append(out.Rivals, Rival{VIP: address.String(), Protocol: l.Protocol, UUID: id, Name: other.Name, On: Holder{h.table(), holder, h.name}, Elsewhere: true, Ours: true})
					break
				}
			}
		}
	}
}

// serves says whether a load balancer is on a router or switch, by itself or in a group.
func (r *replica) serves(holder, balancer string) bool {
	if r.heldBy[balancer].has(holder) {
		return true
	}
	for group := range r.groupedBy[balancer] {
		if _, has := r.holders[holder].groups[group]; has {
			return true
		}
	}
	return false
}
