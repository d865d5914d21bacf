package agent

import (
	"cmp"
	"context"
	"hash/crc32"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

const (
	// routeGrace is for how long packets to a prefix that is no longer announced are not sent
	// back: a router may be slow to forget it.
	routeGrace = 30 * time.Second
)

// routing is what this node announces to routers. Every eligible node announces an address:
// there is nothing to elect, to claim or to hand over, and no gossip to wait for.
type routing struct {
	routers    Routers
	forwarding *forwarding
	routerID   netip.Addr
	// peerLabels are those of the node by which peers were selected.
	peerLabels map[string]string
	routed     map[netip.Addr]*routedAddr
	// routesDirty: tables are to be made again.
	routesDirty bool
	// guarded is until when packets to prefixes are not sent back that are no longer announced.
	announced, guarded map[netip.Prefix]time.Time
	drains
	withdrawn time.Time // since when nothing is announced, because the agent leaves
}

// routedAddr is an address that this node announces to routers.
type routedAddr struct {
	paths []lb.Path
	reach elect.Reach
	since time.Time
	// created is when the oldest Service of the address was: the same on all nodes.
	created time.Time
	tenants []tenancy
	wrong   string // with annotations
	refused []lb.Refusal
}

func (r *routedAddr) equal(o *routedAddr) bool {
	return r.reach == o.reach && r.created.Equal(o.created) && slices.EqualFunc(r.paths, o.paths, func(p, q lb.Path) bool {
		return p.Peer == q.Peer && p.Prefix == q.Prefix && p.LocalPref == q.LocalPref && slices.Equal(p.Communities, q.Communities)
	})
}

// routes returns how an address is announced to routers: as its pool says, which is the same
// for all Services that share it.
func (d *directory) routes(addr netip.Addr) []lb.Route {
	tenants := d.tenants(addr)
	if len(tenants) == 0 {
		return nil
	}
	return d.pools.Routes(addr, tenants[0].Service)
}

// created is when the oldest Service with an address was created.
func (d *directory) created(addr netip.Addr) (oldest time.Time) {
	for i, o := range d.tenants(addr) {
		if i == 0 || o.Request.Created.Before(oldest) {
			oldest = o.Request.Created
		}
	}
	return oldest
}

// self is this node as the election has it, or had it before its object was deleted; nil before
// it is known.
func (a *agent) self() *elect.Node {
	for i := range a.voters {
		if a.voters[i].Name == a.node {
			return &a.voters[i]
		}
	}
	if a.departed {
		return a.last
	}
	return nil
}

// decideRoute decides what this node announces to routers for an address.
func (a *agent) decideRoute(addr netip.Addr, now time.Time) {
	was, is := a.routed[addr], a.routeOf(addr, now)
	if is != nil && is.wrong != "" && (was == nil || was.wrong != is.wrong) && a.speaks() {
		a.event(addr, lb.BGPAnnotationInvalid.With(addr, is.wrong))
	}
	if is != nil && was == nil && a.speaks() {
		a.warnAggregate(addr, is)
	}
	switch {
	case is == nil && was == nil:
		return
	case is == nil:
		delete(a.routed, addr)
		a.reportRoute(addr, was.tenants, nil, "")
	case was == nil:
		is.since = now
		a.routed[addr] = is
		a.reportRoute(addr, nil, is.tenants, peersOf(is.paths))
	default:
		is.since = was.since
		a.routed[addr] = is
		a.reportRoute(addr, was.tenants, is.tenants, peersOf(is.paths))
		if was.equal(is) {
			a.reportDirty = a.reportDirty || !slices.Equal(was.refused, is.refused)
			return
		}
	}
	a.routesDirty, a.reportDirty, a.presenceDirty = true, true, true
}

// routeOf returns what this node announces to routers for an address, or nil. Each of the
// Services that share the address counts for itself: the address is announced as long as one
// of them can be reached here.
func (a *agent) routeOf(addr netip.Addr, now time.Time) *routedAddr {
	out := &routedAddr{created: a.directory.created(addr)}
	routes := a.directory.routes(addr)
	reached := a.reached(addr, routes, now)
	var questions []question
	for _, r := range reached {
		questions = append(questions, question{r.offer.Request.UID, r.offer.Request.Ports, r.offer.HealthPort, r.offer.OtherProxy})
	}
	ready := a.forwarding.ready(a.background, &a.running, addr, questions)
	var services []labels.Set
	for _, r := range reached {
		if !slices.Contains(ready, r.offer.Request.UID) {
			continue
		}
		pool, _ := a.directory.pool(addr, r.offer)
		services = append(services, r.offer.Request.Labels)
		out.tenants = append(out.tenants, tenancy{r.offer.Request.Service, r.offer.Request.UID, pool})
		out.reach = max(out.reach, r.reach)
	}
	out.paths, out.refused = lb.Paths(addr, services, a.labels, routes, a.directory.pools.PeersOf(a.labels, routes))
	if len(out.paths) == 0 {
		return nil
	}
	asked := a.directory.routeRequest(addr)
	out.wrong = asked.Wrong
	for i := range out.paths {
		if wrong := out.paths[i].Amend(&asked); wrong != "" && out.wrong == "" {
			out.wrong = wrong
		}
	}
	if asked.Drain {
		out.reach = elect.Draining
	}
	return out
}

// reachedOffer is a Service for which this node announces an address.
type reachedOffer struct {
	offer *offer
	reach elect.Reach
}

// reached returns the Services for which this node announces an address.
func (a *agent) reached(addr netip.Addr, routes []lb.Route, now time.Time) (out []reachedOffer) {
	self := a.self()
	if len(routes) == 0 || self == nil {
		return nil
	}
	for _, o := range a.directory.tenants(addr) {
		one := elect.Address{Addr: addr}
		a.directory.fillServing(&one, []types.NamespacedName{o.Request.Service})
		if one = one.ForRoutes(routes); !one.AnyServing {
			continue
		}
		if reach, _ := one.Announces(self); reach != elect.Unreached && !a.leavesToOthers(o, &one, routes, self, now) {
			out = append(out, reachedOffer{o, reach})
		}
	}
	return out
}

// routeRequest is what the Services of an address ask for about its routes: what all of them
// ask for, as it is one route.
func (d *directory) routeRequest(addr netip.Addr) lb.RouteRequest {
	var tenants []*sources.Service
	for _, o := range d.tenants(addr) {
		tenants = append(tenants, o.Service)
	}
	return d.pools.RouteRequest(tenants)
}

// routeOutcome says whether any node announces an address to routers.
func (a *agent) routeOutcome(addr netip.Addr, routes []lb.Route) elect.Outcome {
	all := elect.Address{Addr: addr}
	a.directory.fillServing(&all, a.directory.names(addr))
	return elect.Routed(all.ForRoutes(routes), a.voters)
}

// peersOf returns the names of the peers of paths.
func peersOf(paths []lb.Path) string {
	var names []string
	for i := range paths {
		names = append(names, paths[i].Peer)
	}
	return strings.Join(slices.Compact(names), ", ")
}

// routerID is the node's first IPv4 address or, if it has none, a number made of its name.
func routerID(n *corev1.Node) netip.Addr {
	for _, addr := range n.Status.Addresses {
		if a, err := lb.ParseAddr(addr.Address); err == nil && a.Is4() && addr.Type == corev1.NodeInternalIP {
			return a
		}
	}
	sum := crc32.ChecksumIEEE([]byte(n.Name)) // the lowest byte first
	return netip.AddrFrom4([4]byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
}

// applyRoutes hands what was decided to the kernel, and then to the routers.
func (a *agent) applyRoutes(now time.Time) {
	if !a.routesDirty {
		return
	}
	a.routesDirty = false
	var peers []lb.Peer
	tables := map[string]bgp.Table{}
	departed := a.hasDeparted(now)
	for _, p := range a.directory.pools.Peers {
		if p.On(a.labels) && !departed {
			peers = append(peers, p)
			tables[p.Name] = bgp.Table{}
		}
	}
	if a.withdrawn.IsZero() {
		fillTables(tables, a.routed)
	}
	announced := map[netip.Prefix]time.Time{}
	for _, t := range tables {
		for prefix := range t {
			announced[prefix] = now
		}
	}
	for prefix := range a.announced {
		if _, still := announced[prefix]; !still {
			a.guarded[prefix] = now.Add(routeGrace)
		}
	}
	a.announced = announced
	a.tables.route(a.refusedRanges(now))
	a.routers.Set(a.routerID, peers, tables)
	a.forwarding.starting = false
}

// fillTables adds the paths of all addresses to the tables of their peers.
func fillTables(tables map[string]bgp.Table, routed map[netip.Addr]*routedAddr) {
	byAge := slices.SortedFunc(maps.Keys(routed), func(x, y netip.Addr) int {
		return cmp.Or(routed[x].created.Compare(routed[y].created), x.Compare(y))
	})
	for _, addr := range byAge {
		r := routed[addr]
		for _, p := range r.paths {
			t := tables[p.Peer]
			if t == nil {
				continue
			}
			have, known := t[p.Prefix]
			if !known {
				have = bgp.Attributes{LocalPref: p.LocalPref, Since: r.created, Draining: true}
			}
			t[p.Prefix] = united(have, &p, r)
		}
	}
}

// united adds an address to what is announced for its prefix. The oldest address of an
// aggregate decides about its preference, and all together whether it is drained.
func united(have bgp.Attributes, p *lb.Path, r *routedAddr) bgp.Attributes {
	have.Draining = have.Draining && r.reach == elect.Draining
	for _, c := range p.Communities {
		if c.Large {
			if l := (bgp.LargeCommunity{Global: c.A, Local1: c.B, Local2: c.C}); !slices.Contains(have.LargeCommunities, l) {
				have.LargeCommunities = append(have.LargeCommunities, l)
			}
		} else if s := bgp.Community(c.A<<16 | c.B); !slices.Contains(have.Communities, s) {
			have.Communities = append(have.Communities, s)
		}
	}
	return have
}

// refusedRanges are the addresses of all prefixes that routers send here, or did a moment ago.
func (a *agent) refusedRanges(now time.Time) []netipx.IPRange {
	var b netipx.IPSetBuilder
	for prefix := range a.announced {
		delete(a.guarded, prefix)
		b.AddPrefix(prefix)
	}
	for prefix, until := range a.guarded {
		if !now.Before(until) {
			delete(a.guarded, prefix)
			continue
		}
		b.AddPrefix(prefix)
	}
	set, err := b.IPSet()
	if err != nil { // only for invalid prefixes
		return nil
	}
	return set.Ranges()
}

// tickRoutes looks at what changes with time alone.
func (a *agent) tickRoutes(now time.Time) {
	for _, until := range a.guarded {
		a.routesDirty = a.routesDirty || !now.Before(until)
	}
	if !a.due.IsZero() && !now.Before(a.due) {
		a.due, a.allDirty, a.routesDirty = time.Time{}, true, true
	}
}

// leftRoutes says whether routers have stopped to use this node. Those that have other nodes
// prefer these first (RFC 8326), then the routes are withdrawn, then sessions end.
func (a *agent) leftRoutes(now time.Time) bool {
	busy := slices.ContainsFunc(a.routers.Statuses(), func(s PeerStatus) bool { return s.State == bgp.Established })
	switch {
	case !busy:
	case a.withdrawn.IsZero() && len(a.announced) > 0:
		if now.Sub(a.leaving) >= drainTime {
			a.withdrawn, a.routesDirty = now, true
			a.applyRoutes(now)
		}
		return false
	case !a.withdrawn.IsZero() && now.Sub(a.withdrawn) < withdrawTime:
		return false
	}
	ctx, cancel := context.WithTimeout(a.background, time.Second)
	defer cancel()
	a.routers.Stop(ctx, "the agent of node "+a.node+" stops")
	return true
}

// routeAll decides about all addresses at once: before the other agents are met.
func (a *agent) routeAll(now time.Time) {
	if !a.started {
		return
	}
	for addr := range a.directory.addresses {
		a.decideRoute(addr, now)
		a.refreshPorts(addr, now)
	}
	a.tables.write()
	a.applyRoutes(now)
}

// warnAggregate reports that nodes without a pod may get traffic of an address.
func (a *agent) warnAggregate(addr netip.Addr, r *routedAddr) {
	local := slices.ContainsFunc(a.directory.tenants(addr), func(o *offer) bool { return o.Local })
	i := slices.IndexFunc(r.paths, func(p lb.Path) bool { return !p.Prefix.IsSingleIP() })
	alone := !slices.ContainsFunc(r.paths, func(p lb.Path) bool { return p.Prefix.IsSingleIP() })
	if local && i >= 0 && alone {
		a.event(addr, lb.AggregateLocal.With(addr, r.paths[i].Prefix))
	}
}
