package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

const (
	// renewPeriod is a quarter of the lease: three renewals in a row may be late.
	renewPeriod = 250 * time.Millisecond
	// keepPeriod is how often the addresses' lifetimes of 60 s are renewed, which
	// only clean up after an agent that never comes back.
	keepPeriod = 20 * time.Second
	// settlePause after a lost lease or link lets the others' claims arrive first.
	settlePause = time.Second
	// peersPatience is how long a node that should have peers waits for the first.
	peersPatience = 3 * time.Second
	// leaveDeadline is how long others may take to take over from a leaving node.
	leaveDeadline = 8 * time.Second
)

// loop runs until ctx ends and everything is handed over, or left to a successor.
func (a *agent) loop(ctx context.Context) {
	renew, keep := time.NewTicker(renewPeriod), time.NewTicker(keepPeriod)
	defer renew.Stop()
	defer keep.Stop()
	done := ctx.Done()
	for {
		select {
		case <-done:
			if a.seat.hasSuccessor() {
				a.log.Info("leaving everything to the successor on this node")
				return
			}
			done, a.leaving, a.membersDirty = nil, time.Now(), true
			a.log.Info("leaving: handing over", "addresses", len(a.held))
		case <-a.inbox.arrived:
			a.absorb(a.inbox.take())
		case <-a.groupChanged():
			a.membersDirty = true
		case <-a.linksChanged:
			a.linksDirty = true
		case <-a.poke:
			a.membersDirty = true
		case <-a.table.Tampered():
			a.rebuild("somebody else changed our nftables tables; writing them anew")
		case <-a.kernel.Done():
			a.failure = a.kernel.Err()
			return
		case s := <-a.sightings:
			a.heard(s.addr, s.mac, s.place, time.Now())
		case n := <-a.leaseNews:
			a.leaseChanged(n)
		case r := <-a.probes:
			a.probed(r, time.Now())
		case <-keep.C:
			a.keep()
		case <-renew.C:
			if a.tableDirty {
				a.rebuild("trying again to write our nftables tables")
			}
			a.renew()
			a.retryRivals()
			a.resume()
			a.part(time.Now())
		}
		now := time.Now()
		a.beat(now)
		a.step(now)
		if a.failure != nil || !a.leaving.IsZero() && a.left(time.Now()) {
			return
		}
	}
}

// step brings everything in line with what is known now.
func (a *agent) step(now time.Time) {
	if a.linksDirty {
		a.linksDirty = false
		before := a.links
		a.links = a.kernel.List()
		a.settle(now, risen(before, a.links)...)
		a.openPorts()
		a.restore(a.missing())
		a.membersDirty, a.allDirty = true, true
	}
	if a.membersDirty {
		a.membersDirty = false
		a.look(now)
	}
	if !a.mayTake(now) {
		a.report(now) // the others look for agents by their objects
		return
	}
	if a.allDirty {
		a.allDirty = false
		for addr := range a.directory.addresses {
			a.dirty[addr] = true
		}
		for addr := range a.held {
			a.dirty[addr] = true
		}
		for token := range a.directory.members {
			a.dirty[token] = true
		}
	}
	for addr := range a.dirty { // others may have come to live there
		for _, token := range a.directory.leasesAt(addr) {
			a.dirty[token] = true
		}
	}
	for token := range a.dirty { // which addresses of the others follow
		if isToken(token) {
			delete(a.dirty, token)
			a.decideToken(token, now)
		}
	}
	for addr := range a.dirty {
		a.refreshVIP(addr)
		a.decide(addr, now)
	}
	a.apply(now)
	for addr := range a.dirty {
		a.refreshTenants(addr)
	}
	clear(a.dirty)
	a.logTellings()
	a.report(now)
	a.reportPresence()
}

// mayTake: nobody claims anything before one exchange with the others. A node that
// has others waits a little longer for all of them: the first may not know of a
// second, whose claims would then be taken for those of a dead one.
func (a *agent) mayTake(now time.Time) bool {
	if !a.synced {
		missing := a.others < a.peers.count() && now.Before(a.patience)
		a.synced = a.started && (a.group == nil || a.group.Synced() && !missing)
		a.allDirty = a.allDirty || a.synced
	}
	return a.synced
}

// settle has this node take nothing on interfaces on which it was not heard for
// a while: others may have taken what it had.
func (a *agent) settle(now time.Time, interfaces ...string) {
	for _, name := range interfaces {
		a.settling[name] = now.Add(settlePause)
	}
}

// settled says whether an address may be taken on interfaces. If not, it is
// asked again in time.
func (a *agent) settled(interfaces []string, now time.Time) bool {
	until := a.quietUntil
	for _, name := range interfaces {
		if t := a.settling[name]; t.After(until) {
			until = t
		}
	}
	if !now.Before(until) {
		return true
	}
	a.postponed = true
	return false
}

// resume looks again at what was postponed.
func (a *agent) resume() {
	a.allDirty = a.allDirty || a.postponed
	a.postponed = false
}

// absorb takes over changes from the API server.
func (a *agent) absorb(c changes) {
	ctx := a.background // reads of a cache in memory
	if c.agents && a.kubevip != nil {
		a.readLeases()
	}
	if c.configMap {
		a.readConfigMap()
	}
	for key := range c.services {
		a.readService(key)
	}
	for key := range c.slices {
		var s discoveryv1.EndpointSlice
		if err := a.cache.Get(ctx, key, &s); err != nil {
			a.touch(a.directory.setSlice(key, nil)...)
			continue
		}
		a.touch(a.directory.setSlice(key, &s)...)
	}
	if c.classic != nil {
		a.classic = c.classic
	}
	if c.pools || c.classic != nil {
		a.readPools(ctx)
	}
	a.membersDirty = a.membersDirty || c.nodes
	a.metrics.classic.count(&c)
}

// class returns how the Service's addresses are announced, or nil if they are
// not.
func (a *agent) class(s *corev1.Service) *config.Class {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var name string
	if s.Spec.LoadBalancerClass != nil {
		name = *s.Spec.LoadBalancerClass
	}
	class := a.config.Class(name)
	switch {
	case class == nil || class.Backend != config.Announce:
		return nil
	case slices.Contains(class.Pools, lb.KubeVIP) && kubevip.Ignored(s):
		return nil
	}
	return class
}

// refreshVIP keeps our tables in line with the ports that Services offer on
// addr, whichever node has it.
func (a *agent) refreshVIP(addr netip.Addr) {
	if len(a.directory.tenants(addr)) == 0 {
		return
	}
	want := nft.VIP{Ports: a.directory.ports(addr)}
	if h := a.held[addr]; h != nil && h.up {
		want.Interfaces = h.places
	}
	have, known := a.state.VIPs[addr]
	if !known || !slices.Equal(have.Ports, want.Ports) || !slices.Equal(have.Interfaces, want.Interfaces) {
		a.setVIP(addr, want)
	}
}

// retryRivals probes again what strangers used, and tries again what failed.
func (a *agent) retryRivals() {
	now := time.Now()
	for addr, h := range a.held {
		if (h.rival != nil || h.failed) && !h.probing && !now.Before(h.retry) {
			a.dirty[addr] = true
		}
	}
}

// keep renews the addresses' lifetimes.
func (a *agent) keep() {
	var mine []link.Address
	for addr, h := range a.held {
		for _, place := range h.places {
			mine = append(mine, link.Address{Interface: place, Addr: addr})
		}
	}
	missing, err := a.kernel.Renew(mine)
	if err != nil {
		a.log.Error("lifetimes of addresses not renewed", "error", err)
	}
	a.restore(missing)
}

// restore puts addresses back that somebody has taken off an interface: network
// managers do so when they tidy up.
func (a *agent) restore(missing []link.Address) {
	for _, m := range missing {
		a.log.Warn("address was removed by somebody else; adding it again", "address", m.Addr, "interface", m.Interface)
		a.metrics.restored.Inc()
		if !slices.Contains(a.rising, m.Addr) {
			a.rising = append(a.rising, m.Addr)
		}
		a.silence(m.Interface, m.Addr) // and announced anew
	}
}

// missing returns the addresses that should be on interfaces and are not.
func (a *agent) missing() (out []link.Address) {
	there := map[link.Address]bool{}
	for _, own := range a.kernel.Ours() {
		there[own] = true
	}
	for addr, h := range a.held {
		for _, place := range h.places {
			if own := (link.Address{Interface: place, Addr: addr}); !there[own] {
				out = append(out, own)
			}
		}
	}
	return out
}

// rebuild writes our tables anew; should that fail, it is tried again.
func (a *agent) rebuild(why string) {
	a.log.Warn(why)
	var leases []string
	for place := range a.leases {
		leases = append(leases, place)
	}
	err := a.table.Rebuild(a.state, leases)
	if a.tableDirty = err != nil; err != nil {
		a.log.Error("nftables tables not rebuilt", "error", err)
	}
}

// left says whether a leaving node is done: everything was taken over, or nobody
// is there to do so, or it took too long.
func (a *agent) left(now time.Time) bool {
	up, others := false, false
	for _, h := range a.held {
		up = up || h.up
	}
	up = up || len(a.leaseholds) > 0
	for _, n := range a.voters {
		others = others || n.Name != a.node && n.Alive && !n.Leaving
	}
	if up && others && now.Sub(a.leaving) < leaveDeadline {
		return false
	}
	for _, h := range a.leaseholds {
		a.endLease(h, false)
	}
	for addr := range a.held {
		a.falling = append(a.falling, addr)
	}
	a.apply(now)
	if err := a.table.Delete(); err != nil {
		a.log.Error("nftables tables not removed", "error", err)
	}
	if a.group != nil {
		ctx, cancel := context.WithTimeout(a.background, time.Second)
		defer cancel()
		_ = a.group.Leave(ctx)
	}
	a.logTellings()
	a.retired = true
	return true
}

// sighting is a stranger that says it has an address.
type sighting struct {
	addr  netip.Addr
	mac   net.HardwareAddr
	place string
}

// probeResult is the answer of a probe: rival has the address, if not nil.
type probeResult struct {
	addr  netip.Addr
	rival net.HardwareAddr
	place string
}

// look reads who is there: Nodes, members, claims; and what that means for us.
func (a *agent) look(now time.Time) {
	ctx := a.background
	var list corev1.NodeList
	if err := a.cache.List(ctx, &list); err != nil {
		return
	}
	meta := metaOf(a.links, &a.scope, a.proxy.healthy(), !a.leaving.IsZero())
	members := map[string]member.Meta{}
	if a.group != nil {
		a.group.SetMeta(meta)
		for _, m := range a.group.Members() {
			members[m.Name] = m.Meta
			if len(m.Meta.MACs) > 0 {
				a.macs[m.Name] = m.Meta.MACs
			}
		}
		a.claims = a.group.Claims()
	}
	members[a.node] = meta
	a.members = members
	a.forgive()
	if others := len(members) - 1; others != a.others {
		a.others, a.reportDirty = others, true
	}
	alone := a.others == 0 && a.lost(list.Items)
	a.api.wanted.Store(alone)
	switch isolated := alone && !a.api.reachable(); {
	case isolated != a.isolated:
		a.isolated, a.reportDirty = isolated, true
		if a.others == 0 { // they are on their way
			a.quietUntil = now.Add(peersPatience)
		}
	case a.others > 0 && a.quietUntil.After(now.Add(settlePause)):
		a.quietUntil = now.Add(settlePause)
	}
	byConditions := a.group == nil || alone
	a.voters = a.voters[:0]
	addresses := sets.New[netip.Addr]()
	for i := range list.Items {
		n := &list.Items[i]
		has := nodeAddresses(n)
		addresses.Insert(has...)
		if n.Name == a.node && a.group != nil && len(has) > 0 && !slices.Contains(has, a.group.Addr().Addr()) {
			// Nobody hears us at the old one. The next process begins with the new.
			a.failure = fmt.Errorf("the node's address is no longer %s but %s", a.group.Addr().Addr(), has[0])
		}
		if n.Name == a.node {
			a.labels = n.Labels
		}
		v := voter(n)
		v.Excluded = v.Excluded && !a.ignoreExcludeLabel
		if m, ok := members[n.Name]; ok {
			fill(&v, m)
		} else if byConditions && lb.NodeReady(n) {
			fill(&v, meta) // nothing is known of its interfaces: as here
			v.Leaving, v.ProxyHealthy = false, true
		}
		a.voters = append(a.voters, v)
	}
	for _, addr := range a.directory.setNodes(addresses) {
		if addresses.Has(addr) {
			a.log.Warn("address of a Service is a node's, and not announced", "address", addr)
		}
		a.dirty[addr], a.gone[addr] = true, true
	}
	a.peers.set(a.peersOf(list.Items))
	a.allDirty, a.presenceDirty = true, true
	a.metrics.members.Set(float64(len(members)))
}

// lost says whether agents of nodes have been lost: they may still be there, with
// this one cut off. It is otherwise with agents that took their leave, and with
// nodes that are no longer in the cluster.
func (a *agent) lost(nodes []corev1.Node) bool {
	return a.group != nil && slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		_, died := a.group.Died(n.Name)
		return died
	})
}

// peersOf returns the addresses of the other nodes that have an agent.
func (a *agent) peersOf(nodes []corev1.Node) []netip.AddrPort {
	var out []netip.AddrPort
	for i := range nodes {
		n := &nodes[i]
		if n.Name == a.node {
			continue
		}
		var agent v1alpha1.Agent
		if err := a.cache.Get(a.background, types.NamespacedName{Name: n.Name}, &agent); err != nil {
			continue
		}
		if addr, ok := nodeAddress(n); ok {
			out = append(out, netip.AddrPortFrom(addr, a.gossipPort))
		}
	}
	return out
}
