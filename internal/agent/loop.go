package agent

import (
	"context"
	"net/netip"
	"time"

	"fairlead.io/internal/nft"
)

const (
	// renewPeriod is a quarter of the fence's time: three renewals in a row may be
	// late.
	renewPeriod = nft.FenceTime / 4
	// keepPeriod is how often the addresses' lifetimes of 60 s are renewed, which
	// only clean up after an agent that never comes back.
	keepPeriod = 20 * time.Second
	// recheckPeriod is how often settings of interfaces are read again.
	recheckPeriod = 5 * time.Second
	// settlePause after a lost fence or link lets the others' claims arrive first.
	settlePause = time.Second
	// peersPatience is how long a node that should have peers waits for the first.
	peersPatience = 3 * time.Second
	// leaveDeadline is how long others may take to take over from a leaving node.
	leaveDeadline = 8 * time.Second
)

// loop runs until ctx ends and everything is handed over, or left to a successor.
func (a *agent) loop(ctx context.Context) {
	renew, keep := time.NewTicker(renewPeriod), time.NewTicker(keepPeriod)
	recheck, count := time.NewTicker(recheckPeriod), time.NewTicker(countPeriod)
	defer renew.Stop()
	defer recheck.Stop()
	defer count.Stop()
	defer a.reportTimer.Stop()
	defer keep.Stop()
	done := ctx.Done()
	for {
		select {
		case <-done:
			if a.hasSuccessor() {
				a.log.Info("stopping: the next agent on this node keeps the addresses")
				return
			}
			done, a.leaving, a.membersDirty = nil, time.Now(), true
			a.log.Info("stopping: handing addresses over to other nodes", "addresses", len(a.held))
		case <-a.inbox.arrived:
			a.absorb(a.inbox.take())
		case <-a.groupChanged():
			a.hearGroup()
		case <-a.carryingChanged():
			a.noteCarrying()
		case <-a.kernel.Changed():
			a.linksDirty = true
		case <-a.poke:
			a.membersDirty = true
		case <-a.tables.nft.Tampered():
			a.tables.rebuild("another program changed our nftables tables; writing them again")
			a.tellTampered()
		case <-a.kernel.Done():
			a.failure = a.kernel.Err()
			return
		case n := <-a.announcer.News():
			a.hearAll(n, time.Now())
		case <-a.routers.News():
			a.reportDirty = true
		case n := <-a.leases.News():
			a.leases.Heard(n)
		case <-keep.C:
			a.keep()
		case <-a.reportTimer.C:
		case <-count.C:
			a.logFirstPackets()
		case <-recheck.C:
			a.kernel.Recheck()
		case <-renew.C:
			a.tables.retry()
			a.renew()
			a.retryFailed()
			a.resume()
			a.leases.Tick(time.Now())
			a.askLAN(time.Now())
			a.fadeOut(time.Now())
			a.tickRoutes(time.Now())
			a.noteCarrying()
			a.tickCarried(time.Now())
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
		a.follow(a.kernel.List())
		a.settle(now, risen(before, a.links)...)
		a.restore(a.missing())
		a.membersDirty, a.allDirty = true, true
	}
	if a.membersDirty {
		a.membersDirty = false
		a.look(now)
	}
	if !a.mayTake(now) {
		a.routeAll(now)
		a.reportInTurn(now) // the others look for agents by their objects
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
		a.leases.LookAll()
	}
	for addr := range a.dirty { // other Services may have come to live there
		a.leases.LookAt(addr)
	}
	a.leases.Step(now) // first: addresses follow leases
	for addr := range a.dirty {
		a.decideRoute(addr, now)
		a.refreshPorts(addr, now)
		a.decide(addr, now)
	}
	a.apply(now)
	a.applyRoutes(now)
	for addr := range a.dirty {
		a.refreshTenants(addr)
	}
	clear(a.dirty)
	a.logChanges()
	a.reportInTurn(now)
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

// touch has addresses decided about in the next step.
func (a *agent) touch(addresses ...netip.Addr) {
	for _, x := range addresses {
		a.dirty[x], a.gone[x] = true, true
	}
}

// refreshPorts keeps our tables in line with the ports that Services offer on
// addr, whichever node has it, if any.
func (a *agent) refreshPorts(addr netip.Addr, now time.Time) {
	if len(a.directory.tenants(addr)) == 0 {
		delete(a.fading, addr)
		return
	}
	var ifaces []string
	if h := a.held[addr]; h != nil && h.up {
		ifaces = h.ifaces
	}
	a.tables.refresh(addr, nft.VIP{Ports: a.directory.ports(addr), Interfaces: ifaces, Unclaimed: !a.guards(addr, now), Counted: a.directory.placed(addr) && len(ifaces) > 0})
}

// left says whether a leaving node is done: everything was taken over, or nobody
// is there to do so, or it took too long.
func (a *agent) left(now time.Time) bool {
	up, others := a.leases.Len() > 0, false
	for _, h := range a.held {
		up = up || h.up
	}
	for _, n := range a.voters {
		others = others || n.Name != a.node && n.Alive && !n.Leaving
	}
	if up && others && now.Sub(a.leaving) < leaveDeadline || !a.leftRoutes(now) || !up && others && a.awaitsConnections(now) {
		return false
	}
	a.leases.EndAll()
	a.reportMoves(now.Add(keptPatience))
	for addr := range a.held {
		a.falling = append(a.falling, addr)
	}
	a.apply(now)
	a.removeCarrying()
	if err := a.tables.nft.Delete(); err != nil {
		a.log.Error("nftables tables not removed", "error", err)
	}
	if a.group != nil {
		ctx, cancel := context.WithTimeout(a.background, time.Second)
		defer cancel()
		_ = a.group.Leave(ctx)
	}
	a.logChanges()
	a.retired = true
	return true
}
