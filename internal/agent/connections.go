package agent

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/carrying"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/moves"
)

// Established connections stay with the node that has them when an address moves: the next
// owner hands their packets to it. Package carrying does this beside the loop.

const (
	// preparePatience is how long an address that is handed over waits for the lists of
	// connections: the former owner goes on announcing it meanwhile.
	preparePatience = 500 * time.Millisecond
	// lastListTime is how long an agent that leaves stays to list the connections that its node
	// has after the next owner has answered.
	lastListTime = time.Second
	// carriedPause is how often numbers of connections are reported.
	carriedPause = 10 * time.Second
	// maxCarried bounds the Agent object.
	maxCarried = 500
)

// connections is what the loop knows about connections that stay behind.
type connections struct {
	carrying *carrying.Carrying // nil: connections are not kept
	// end ends it.
	end context.CancelFunc
	// keepDefault is for how long connections are kept of pools that say nothing; grace is how
	// long an agent that ends for good waits for those of this node to end.
	keepDefault, grace time.Duration
	// preparing are addresses that are about to be taken, since when and for which claim.
	preparing map[netip.Addr]preparation
	// moves have happened, and their events wait for the number of connections.
	moves []move
	// carriedTold is what was reported, and carriedAt when.
	carriedTold []v1alpha1.CarriedAddress
	carriedAt   time.Time
	waits       bool      // for connections, while leaving
	lowered     time.Time // when the last address was given up
}

type preparation struct {
	epoch uint64
	since time.Time
}

// runCarrying keeps connections from now on.
func (a *agent) runCarrying() {
	if a.carrying == nil {
		return
	}
	if a.group == nil { // nobody lists anything
		a.carrying.Close()
		a.carrying = nil
		return
	}
	ctx, end := context.WithCancel(a.background)
	a.connections.end = end
	a.running.Go(func() {
		a.carrying.Run(ctx, a.group)
		a.carrying.Wait()
	})
}

// stopCarrying ends what is done about connections; what is in the kernel stays.
func (a *agent) stopCarrying() {
	if a.connections.end != nil {
		a.connections.end()
		<-a.carrying.Ended()
	}
}

// closeCarrying closes it.
func (a *agent) closeCarrying() {
	a.stopCarrying()
	if a.carrying != nil {
		a.carrying.Close()
	}
}

// removeCarrying removes it, too.
func (a *agent) removeCarrying() {
	if a.carrying == nil {
		return
	}
	a.stopCarrying()
	if err := a.carrying.Remove(); err != nil {
		a.log.Error("nftables tables of connections not removed", "error", err)
	}
}

func (a *agent) carryingChanged() <-chan struct{} {
	if a.carrying == nil {
		return nil
	}
	return a.carrying.Changed()
}

// noteCarrying looks again at what waits for lists of connections.
func (a *agent) noteCarrying() {
	for addr := range a.preparing {
		a.dirty[addr] = true
	}
	a.reportMoves(time.Now())
}

// keepLimit is for how long connections of addr are kept after a move; 0: they are not.
func (a *agent) keepLimit(addr netip.Addr) time.Duration {
	if a.carrying == nil || a.directory.placed(addr) {
		return 0
	}
	return a.directory.keep(addr, a.keepDefault)
}

// prepared says whether addr may be taken that last has now: the connections through that node
// are known and will go on. An address whose users wait is not kept waiting.
func (a *agent) prepared(addr netip.Addr, ifaces []string, epoch uint64, last string, now time.Time) bool {
	_, member := a.members[last]
	limit := a.keepLimit(addr)
	if last == "" || last == a.node || !member || limit == 0 || !a.isUp(addr, last) {
		delete(a.preparing, addr)
		return true
	}
	p, known := a.preparing[addr]
	if !known || p.epoch != epoch {
		if !known {
			p.since = now
		}
		p.epoch = epoch
		a.preparing[addr] = p
		a.carrying.Take(addr, carrying.Claim{Claim: moves.Claim{Epoch: epoch, Interfaces: ifaces, From: last, Limit: limit}})
	}
	if now.Sub(p.since) < preparePatience && !a.carrying.Ready(addr, epoch) {
		return false
	}
	delete(a.preparing, addr)
	return true
}

// isUp says whether a node announces addr.
func (a *agent) isUp(addr netip.Addr, node string) bool {
	return slices.ContainsFunc(a.claimed(addr), func(c member.Claim) bool {
		return c.Node == node && c.Up && c.Standing != member.Orphaned
	})
}

// unprepare forgets an address that is not about to be taken any more.
func (a *agent) unprepare(addr netip.Addr) {
	if _, ok := a.preparing[addr]; !ok {
		return
	}
	delete(a.preparing, addr)
	if h := a.held[addr]; h == nil || !h.up {
		a.carrying.Drop(addr)
	}
}

// tellRaised says that addr is here.
func (a *agent) tellRaised(addr netip.Addr, h *holding) {
	if a.carrying == nil {
		return
	}
	a.carrying.Take(addr, carrying.Claim{Up: true, Claim: moves.Claim{Epoch: h.epoch, Interfaces: h.ifaces, From: h.from, Limit: a.keepLimit(addr)}})
}

// tellLowered says that addr is not here any more.
func (a *agent) tellLowered(addr netip.Addr, now time.Time) {
	if a.carrying != nil {
		a.carrying.Drop(addr)
		a.lowered = now
	}
}

// tellHeld says again which addresses are here: limits of pools may be others, or an earlier agent
// has left them. An agent that starts says so when it has read the Services, not before: with
// another limit, connections that its predecessor kept would end.
func (a *agent) tellHeld() {
	for addr, h := range a.held {
		if h.up {
			a.tellRaised(addr, h)
		}
	}
}

// tellDirty is tellHeld for addresses whose Services have changed.
func (a *agent) tellDirty() {
	for addr := range a.dirty {
		if h := a.held[addr]; h != nil && h.up {
			a.tellRaised(addr, h)
		}
	}
}

// tellTampered says that another program has changed tables of nftables.
func (a *agent) tellTampered() {
	if a.carrying != nil {
		a.carrying.Tampered()
	}
}

// tellLinks says which interfaces there are.
func (a *agent) tellLinks(used []link.Link) {
	if a.carrying == nil {
		return
	}
	var inside []netip.Prefix
	names := map[string]bool{}
	for i := range used {
		names[used[i].Name] = true
	}
	own := map[netip.Addr]bool{}
	for i := range a.links {
		for _, p := range a.links[i].Prefixes {
			own[p.Addr()] = true
			if !names[a.links[i].Name] && !p.Addr().IsLinkLocalUnicast() && !p.IsSingleIP() {
				inside = append(inside, p.Masked()) // pods
			}
		}
	}
	ports := slices.DeleteFunc(slices.Clone(a.links), func(l link.Link) bool { return !names[l.Name] && !l.Slave })
	a.carrying.Follow(ports, func(client netip.Addr) bool {
		return own[client] || slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Contains(client) })
	})
}

// tellMembers says which nodes there are.
func (a *agent) tellMembers() {
	if a.carrying == nil {
		return
	}
	members := map[string]bool{}
	for name := range a.members {
		if name != a.node {
			members[name] = true
		}
	}
	macs := make(map[string][]net.HardwareAddr, len(a.macs))
	maps.Copy(macs, a.macs)
	a.carrying.Members(macs, members)
	a.carrying.Addresses(maps.Clone(a.nodeAddrs))
}

// awaitsConnections says whether a node that leaves waits for its connections to end.
func (a *agent) awaitsConnections(now time.Time) bool {
	switch {
	case a.carrying == nil || a.keepDefault == 0 && a.carrying.Listed() == 0:
		return false
	case now.Sub(a.lowered) < lastListTime:
		return true
	case now.Sub(a.leaving) >= a.grace:
		return false
	}
	n := a.carrying.Listed()
	if n > 0 && !a.waits {
		a.waits = true
		a.log.Info("stopping: waiting for connections to end", "connections", n, "at most", a.grace)
	}
	return n > 0
}

// tickCarried has the Agent object say how many connections are carried. They end all the time:
// their numbers are written now and then, for which addresses there are any, at once.
func (a *agent) tickCarried(now time.Time) {
	if a.carrying == nil {
		return
	}
	carried, total := a.carrying.Carried()
	a.metrics.carried.Set(float64(total))
	a.metrics.listed.Set(float64(a.carrying.Listed()))
	out := make([]v1alpha1.CarriedAddress, 0, min(len(carried), maxCarried))
	for _, c := range carried[:min(len(carried), maxCarried)] {
		out = append(out, v1alpha1.CarriedAddress{Address: c.Address.String(), Node: c.Node, Connections: int32(min(c.Connections, 1<<30)), Since: metav1.NewTime(c.Since.Truncate(time.Second))})
	}
	same := slices.EqualFunc(out, a.carriedTold, func(x, y v1alpha1.CarriedAddress) bool { return x.Address == y.Address && x.Node == y.Node })
	if same && (now.Sub(a.carriedAt) < carriedPause || slices.Equal(out, a.carriedTold)) {
		return
	}
	a.carriedTold, a.carriedAt, a.reportDirty = out, now, true
}
