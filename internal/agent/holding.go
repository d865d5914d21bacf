package agent

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// holding is an address that this node has, or is about to have.
type holding struct {
	epoch  uint64
	up     bool     // the kernel answers for it
	ifaces []string // interfaces it is on, if up
	since  time.Time
	from   string // the node that had it before, as far as known

	probing bool
	// rival is a host on the LAN, not a node, that uses the address. This node does
	// not use the address until a probe finds it free.
	rival net.HardwareAddr
	// lost: the rival is a node that was not a member when it announced the address.
	lost bool
	// reported is when an event last said so.
	reported time.Time
	// tenants are the Services with an event that says that it is here, and refused
	// those with one that says why it is not for them; offSubnet is whether there is
	// an event about that.
	tenants, refused []tenancy
	offSubnet        bool
	// received: a packet has arrived from outside, if packets are counted.
	received bool
	// inherited from an earlier agent on this node, which has written all these.
	inherited bool
	// failed: the kernel refused it, so many times in a row, with failure.
	failed   bool
	failures int
	failure  error
	// unfit: it did so too often, and other nodes know. It is tried again at retry.
	unfit bool
	retry time.Time // of all three
}

const (
	// failureRetry is how often the kernel is asked again.
	failureRetry = time.Second
	// maxFailures in a row make a refusal: another node takes the address.
	maxFailures = 3
	// refusalRetry is how often a kernel that refuses is asked again.
	refusalRetry = 10 * time.Second
)

// repeatAfter is how often the same conflict is reported.
const repeatAfter = 10 * time.Minute

// rivalRetry is how often an address that another host uses is probed again.
const rivalRetry = 15 * time.Second

// rivalGrace is for how long after it took an address a node does not yield to
// another one that is not a member: twice the fence's time, within which a node
// whose agent has died stops answering.
const rivalGrace = 2 * nft.FenceTime

// decide does what is to be done about one address. What changes the kernel is
// collected in a.rising and a.falling, and done for all addresses at once.
func (a *agent) decide(addr netip.Addr, now time.Time) {
	h := a.held[addr]
	if len(a.directory.tenants(addr)) == 0 || a.isolated {
		a.unprepare(addr)
		if h != nil {
			a.falling = append(a.falling, addr)
		}
		return
	}
	if lease := a.directory.lease(addr); lease != "" {
		a.decideLeased(addr, lease, now)
		return
	}
	candidate := a.candidate(addr, now)
	voters, presumed := a.electorate(addr, a.ifacesFor(&candidate), now)
	claims, last := a.claimsOf(addr, presumed)
	outcome := elect.Elect(candidate, voters, claims)
	told := outcome
	if routes := a.directory.routes(addr); outcome.Why == elect.NotAdvertised && len(routes) > 0 {
		told = a.routeOutcome(addr, routes)
	}
	a.reportRefused(addr, told)
	if h != nil && h.up && len(a.ifacesFor(&candidate)) == 0 {
		a.falling = append(a.falling, addr)
		return
	}
	task := outcome.Task(a.node, claims)
	if task != elect.Take {
		a.unprepare(addr)
	}
	switch task {
	case elect.Take:
		up := h != nil && h.up
		switch {
		case !up && !a.settled(a.ifacesFor(&candidate), now):
			return
		case !up && a.solitude != nil && a.solitude.sees(addr, now):
			return // a lost node has it
		case !up && len(presumed) > 0:
			last = "" // a lost node may have it: probe
		}
		if !up && !a.prepared(addr, a.ifacesFor(&candidate), outcome.Epoch, last, now) {
			return
		}
		a.take(addr, h, outcome.Epoch, last, now)
	case elect.Keep:
		if want := a.ifacesFor(&candidate); !slices.Equal(want, h.ifaces) || h.failed && !now.Before(h.retry) {
			a.rising = append(a.rising, addr) // on other interfaces now, or not restored yet
		}
	case elect.Drop, elect.Nothing:
		if h != nil && (h.up || !h.refuses(now)) {
			a.falling = append(a.falling, addr)
		}
	case elect.HandOver: // until the next owner is up
	}
}

// candidate is the directory's, with the nodes whose kernel does not take the address.
func (a *agent) candidate(addr netip.Addr, now time.Time) elect.Address {
	out := a.directory.candidate(addr)
	refuse := func(node string) {
		if out.Refused == nil {
			out.Refused = sets.New[string]()
		}
		out.Refused.Insert(node)
	}
	if h := a.held[addr]; h != nil && h.refuses(now) {
		refuse(a.node)
	}
	for _, c := range a.claimed(addr) {
		if c.Refused && c.Node != a.node && c.Standing != member.Orphaned {
			refuse(c.Node)
		}
	}
	return out
}

// refuses says whether the kernel does not take the address, and is not to be asked
// again yet.
func (h *holding) refuses(now time.Time) bool { return h.unfit && now.Before(h.retry) }

// ifacesFor returns the interfaces on which this node would have the address.
func (a *agent) ifacesFor(of *elect.Address) []string {
	named := of.InterfacesOn(a.labels)
	if of.Placed && len(named) == 0 {
		// The networks of the node say nothing about an address that a cloud leads to it.
		named = []string{link.Primary(lb.FamilyOf(of.Addr), a.links)}
	}
	return carriers(of.Addr, named, a.links, a.scope.excluded)
}

// ifacesOf is ifacesFor; an address that is leased is where the lease is.
func (a *agent) ifacesOf(addr netip.Addr) []string {
	if lease := a.directory.lease(addr); lease != "" {
		if l, ok := a.leases.Held(lease); ok {
			return []string{l.Interface}
		}
		return nil
	}
	candidate := a.directory.candidate(addr)
	return a.ifacesFor(&candidate)
}

// take claims an address. One that no node is known to have had is probed first:
// another host may use it. One that moves is not: its users wait.
func (a *agent) take(addr netip.Addr, h *holding, epoch uint64, last string, now time.Time) {
	switch {
	case h == nil:
		h = &holding{since: now}
		a.held[addr] = h
	case h.probing, (h.rival != nil || h.failed) && now.Before(h.retry):
		return
	}
	h.epoch = epoch
	if had := a.had[addr]; had != a.node {
		h.from = had
	}
	if h.up || h.rival == nil && last != "" {
		a.came[addr] = last
		a.rising = append(a.rising, addr)
		return
	}
	h.probing = true
	a.claim(addr)
	members := a.members // replaced as a whole
	a.announcer.Probe(addr, a.ifacesOf(addr), func(mac net.HardwareAddr) bool { return isMember(members, mac) })
}

// fail notes that the kernel did not take an address. If it does so again and again,
// the other agents are told, and one of them takes it.
func (a *agent) fail(addr netip.Addr, h *holding, err error, now time.Time) {
	h.failed, h.failure, h.retry = true, err, now.Add(failureRetry)
	if h.failures++; h.failures < maxFailures {
		return
	}
	h.retry = now.Add(refusalRetry)
	if !h.unfit {
		a.event(addr, lb.AddressRefused.With(addr, a.node, err))
	}
	h.unfit, a.reportDirty, a.postponed = true, true, true
	a.claim(addr)
}

// maxNews is how much news of the announcer one turn of the loop takes over: a LAN on
// which much is said must not keep the loop from renewing fences.
const maxNews = 1000

// hearAll takes over n and all news that wait behind it. Probes of many addresses end at
// the same moment, and each turn of the loop costs time for all addresses of the node.
func (a *agent) hearAll(n News, now time.Time) {
	a.hear(n, now)
	for range maxNews - 1 {
		select {
		case n = <-a.announcer.News():
		default:
			return
		}
		if !n.Probe && len(a.rising) > 0 {
			a.apply(now) // another host may speak of an address that was found free
		}
		a.hear(n, now)
	}
}

// hear takes over what the announcer has heard.
func (a *agent) hear(n News, now time.Time) {
	switch {
	case n.Survey:
		a.surveyed(n, now)
	case n.Probe:
		a.probed(n, now)
	case n.Asks:
		a.askedFor(n.MAC, now)
	default:
		a.sighted(n.Addr, n.MAC, n.Interface, now)
	}
}

// askedFor is called when a host asks whether anybody has an address of a Service. If
// it is a lost node, its agent lives: nobody else there would ask.
func (a *agent) askedFor(mac net.HardwareAddr, now time.Time) {
	if node := a.nodeOf(mac); a.solitude != nil && node != "" && node != a.node {
		a.solitude.heard[node] = now
	}
}

// probed takes over the answer of a probe.
func (a *agent) probed(n News, now time.Time) {
	h := a.held[n.Addr]
	if h == nil || !h.probing {
		return
	}
	h.probing = false
	if n.MAC == nil {
		if h.rival != nil {
			a.log.Info("address is free again", "address", n.Addr)
		}
		h.rival = nil
		a.came[n.Addr] = ""
		a.rising = append(a.rising, n.Addr)
		return
	}
	if node := a.nodeOf(n.MAC); node != "" && a.solitude != nil {
		a.leaveTo(n.Addr, h, n.MAC, now)
		return
	}
	a.concede(n.Addr, h, n.MAC, n.Interface, now)
}

// sighted is called with every frame in which another host says that it has addr.
// Frames of members are ignored: claims settle those. If the host is not a node, this
// node defends the address once; if the host insists, this node gives it up (RFC 5227
// §2.4). If the host is a node but not a member, gossip between the two fails: it took
// the address because it believes that this node is dead. This node then yields,
// unless it has just taken the address itself: then the other node is the one that
// was believed dead, or its fence has not expired yet. An agent that is alone knows
// when that must have happened, and remembers what it hears.
func (a *agent) sighted(addr netip.Addr, mac net.HardwareAddr, iface string, now time.Time) {
	if isMember(a.members, mac) {
		return
	}
	h, node := a.held[addr], a.nodeOf(mac)
	up := h != nil && h.up
	if node != "" {
		yields := up && now.Sub(h.since) > rivalGrace
		if a.solitude != nil {
			if yields = yields || !a.fenced(node, now); yields {
				a.listen(node, addr, now)
			}
			yields = yields && up
		}
		if yields {
			a.log.Warn("a node outside the group announces the address", "address", addr, "node", node)
			a.leaveTo(addr, h, mac, now)
		}
		return
	}
	if !up {
		return
	}
	if a.announcer.Defend(addr, iface) {
		return
	}
	a.concede(addr, h, mac, iface, now)
}

// concede leaves an address to a host that is not a node, until it is free again.
func (a *agent) concede(addr netip.Addr, h *holding, mac net.HardwareAddr, iface string, now time.Time) {
	if same := slices.Equal(h.rival, mac) && now.Sub(h.reported) < repeatAfter; a.nodeOf(mac) == "" && !same {
		h.reported = now
		a.metrics.conflicts.Inc()
		a.reportConflict(addr, mac, iface)
	}
	a.yield(addr, h, mac, now)
	a.leases.InUse(addr, mac)
}

// yield stops using an address until it is free. The claim stays, so that no
// other node runs into the same.
func (a *agent) yield(addr netip.Addr, h *holding, mac net.HardwareAddr, now time.Time) {
	h.rival, h.lost, h.retry = mac, false, now.Add(rivalRetry)
	a.reportDirty = true
	if h.up {
		a.lowering = append(a.lowering, addr)
	}
}

// leaveTo yields an address to a node that is not a member.
func (a *agent) leaveTo(addr netip.Addr, h *holding, mac net.HardwareAddr, now time.Time) {
	a.yield(addr, h, mac, now)
	h.lost = true
}

// forgive tries addresses again that were left to a host that has turned out to
// be a node: agents that are started at the same moment ask for the same addresses
// before they know each other. A node that was lost and is back has the address: it
// is a member again a moment before its claims arrive, which are waited for.
func (a *agent) forgive(now time.Time) {
	for addr, h := range a.held {
		if h.rival != nil && isMember(a.members, h.rival) {
			if h.lost {
				a.settle(now, a.ifacesOf(addr)...)
			}
			h.rival, h.lost = nil, false
			a.dirty[addr] = true
			a.reportDirty = true
		}
	}
}

// retryFailed probes again what other hosts used, and tries again what failed.
func (a *agent) retryFailed() {
	now := time.Now()
	for addr, h := range a.held {
		if (h.rival != nil || h.failed || h.unfit) && !h.probing && !now.Before(h.retry) {
			a.dirty[addr] = true
		}
	}
}

// nodeOf returns the node that mac belongs to, a member or not.
func (a *agent) nodeOf(mac net.HardwareAddr) string {
	for node, macs := range a.macs {
		if hasMAC(macs, mac) {
			return node
		}
	}
	return ""
}

func isMember(members map[string]member.Meta, mac net.HardwareAddr) bool {
	for _, m := range members {
		if hasMAC(m.MACs, mac) {
			return true
		}
	}
	return false
}

func hasMAC(macs []net.HardwareAddr, mac net.HardwareAddr) bool {
	return slices.ContainsFunc(macs, func(m net.HardwareAddr) bool { return slices.Equal(m, mac) })
}
