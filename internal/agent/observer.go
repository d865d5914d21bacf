package agent

import (
	"context"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/lb"
)

// Observer reports what this node does in the format of another load balancer,
// beside the Agent object and our own events: for the dashboards and scripts that
// there are. The loop calls it and never waits for it.
type Observer interface {
	// Run writes until ctx ends.
	Run(ctx context.Context)
	// Observes says whether Services with addresses of a pool are reported to
	// Presence, and have their events in the words of Event.
	Observes(pool lb.PoolKey) bool
	// Event returns reason and source of an event.
	Event(reason lb.Reason) (code, component string)

	// Read says that so many objects were read, Configured what there is of
	// configuration in other formats.
	Read(objects int)
	Configured(all []sources.Configuration)
	// Announced says that an address of a Service is announced from here now by a
	// protocol, or no longer; Forget that no Service has the address.
	Announced(service types.NamespacedName, addr netip.Addr, protocol string, yes bool)
	Forget(addr netip.Addr)
	// Presence is how all Services that are observed are announced from here.
	Presence(all map[types.NamespacedName]Presence)
	// Routes are the peers to which those of them are announced from here by BGP, sorted.
	Routes(all map[types.NamespacedName][]string)

	// Finish says, as the last thing, that this node announces nothing any more.
	Finish(ctx context.Context) error
}

// Presence is how this node announces a Service.
type Presence struct {
	Interfaces []string // sorted; none means all
	// Others are nodes that announce the Service, too: another of its addresses, or
	// the same one until it is handed over.
	Others sets.Set[string]
}

// Equal says whether p and o are the same.
func (p Presence) Equal(o Presence) bool {
	return slices.Equal(p.Interfaces, o.Interfaces) && p.Others.Equal(o.Others)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Run(context.Context)                                      {}
func (nobody) Observes(lb.PoolKey) bool                                 { return false }
func (nobody) Event(lb.Reason) (code, component string)                 { return "", "" }
func (nobody) Read(int)                                                 {}
func (nobody) Configured([]sources.Configuration)                       {}
func (nobody) Announced(types.NamespacedName, netip.Addr, string, bool) {}
func (nobody) Forget(netip.Addr)                                        {}
func (nobody) Presence(map[types.NamespacedName]Presence)               {}
func (nobody) Routes(map[types.NamespacedName][]string)                 {}
func (nobody) Finish(context.Context) error                             { return nil }

// reportPresence hands the observer how this node announces the Services that it
// observes.
func (a *agent) reportPresence() {
	if !a.presenceDirty {
		return
	}
	a.presenceDirty = false
	all := map[types.NamespacedName]Presence{}
	everywhere := sets.New[types.NamespacedName]() // announced on all interfaces
	for addr, h := range a.held {
		for _, t := range h.tenants {
			if !a.observer.Observes(t.pool) {
				continue
			}
			if candidate := a.directory.candidate(addr); candidate.InterfacesOn(a.labels) == nil {
				everywhere.Insert(t.service)
			}
			p := all[t.service]
			p.Interfaces = sets.List(sets.New(p.Interfaces...).Insert(h.ifaces...))
			p.Others = a.alsoAnnouncing(t.service)
			all[t.service] = p
		}
	}
	for service := range everywhere {
		all[service] = Presence{Others: all[service].Others}
	}
	a.observer.Presence(all)
	a.observer.Routes(a.routesOfServices())
}

// alsoAnnouncing returns the other nodes that have an address of the Service.
func (a *agent) alsoAnnouncing(service types.NamespacedName) sets.Set[string] {
	out := sets.New[string]()
	if o := a.directory.services[service]; o != nil {
		for _, addr := range o.has {
			for _, c := range a.claimed(addr) {
				if _, alive := a.members[c.Node]; alive && c.Up && c.Node != a.node {
					out.Insert(c.Node)
				}
			}
		}
	}
	return out
}
