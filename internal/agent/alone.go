package agent

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/nft"
)

// An agent that has lost all others cannot know from gossip which side is cut off. It
// asks the LAN: it takes what nobody answers for, if a witness answers on that segment,
// a host that is no node. An answer of a lost node means that it lives.
//
// The other agent may be alone, too, and hear less than this one. So an agent that is
// alone announces what it has from time to time, and yields what it hears another node
// announce. Of two nodes of which one does not hear the other, that one has all in
// the end.

const (
	// heardFor is how long a lost node counts as alive after it was heard: three times
	// remindPeriod.
	heardFor = 3 * remindPeriod
	// remindPeriod is how often an agent that is alone announces what it has.
	remindPeriod = 5 * time.Second
	// surveyPeriod is how often an agent that is alone asks again, and surveySeldom
	// after surveyOften rounds.
	surveyPeriod = time.Second
	surveySeldom = 5 * time.Second
	surveyOften  = 15
	// fenceMargin is how much longer than its fence a dead agent's kernel may be heard.
	fenceMargin = 100 * time.Millisecond
	// silentRounds is how often nobody must have answered for one address while a lost
	// node answers for others: time enough for that node to take it.
	silentRounds = 3
	// maxSample and maxWitnesses bound the frames of one round.
	maxSample, maxWitnesses = 32, 8
)

// solitude is what is known while all others are lost.
type solitude struct {
	segments map[string]*segment // by interface
	// heard is when a lost node was last heard to ask or announce of its own accord,
	// and seen when it announced an address.
	heard    map[string]time.Time
	seen     map[netip.Addr]time.Time
	reminded time.Time
}

// segment is one LAN, as an agent that is alone sees it.
type segment struct {
	asking bool
	next   time.Time // when to ask again
	rounds int
	// missed is how many rounds in a row no witness answered.
	missed int
	// living: a lost node answered in the last round.
	living bool
	// silent is in how many rounds in a row nobody answered for an address while a
	// witness did answer, and denied in how many a lost node answered for others.
	silent, denied map[netip.Addr]int
}

func newSegment() *segment {
	return &segment{silent: map[netip.Addr]int{}, denied: map[netip.Addr]int{}}
}

func newSolitude() *solitude {
	return &solitude{segments: map[string]*segment{}, heard: map[string]time.Time{}, seen: map[netip.Addr]time.Time{}}
}

// witnessed says whether a host that is no node answered in the last round.
func (s *segment) witnessed() bool { return s != nil && s.rounds > 0 && s.missed == 0 }

// blind says whether no host answers on any segment.
func (s *solitude) blind() bool {
	for _, seg := range s.segments {
		if seg.missed < 2 {
			return false
		}
	}
	return true
}

// hears says whether a lost node was heard.
func (s *solitude) hears(node string, now time.Time) bool {
	at, ok := s.heard[node]
	return ok && now.Sub(at) < heardFor
}

// lives says whether any lost node was heard.
func (s *solitude) lives(now time.Time) bool {
	for node := range s.heard {
		if s.hears(node, now) {
			return true
		}
	}
	return false
}

// sees says whether a lost node has addr.
func (s *solitude) sees(addr netip.Addr, now time.Time) bool {
	at, ok := s.seen[addr]
	return ok && now.Sub(at) < heardFor
}

// allows says whether addr may be taken on interfaces although lost nodes are
// believed alive elsewhere: a witness answers, and no lost node does. Where one answers
// for other addresses, so that it hears the questions, its silence about this one
// counts. One that was heard but does not answer may not hear them: its silence says
// nothing.
func (s *solitude) allows(addr netip.Addr, ifaces []string, now time.Time) bool {
	witnessed := false
	for _, name := range ifaces {
		seg := s.segments[name]
		switch {
		case !seg.witnessed():
			continue
		case seg.living && seg.denied[addr] < silentRounds, !seg.living && s.lives(now):
			return false
		}
		witnessed = true
	}
	return witnessed && !s.sees(addr, now)
}

// judge takes over what a round of questions brought: which of the addresses asked
// were answered for by lost nodes, and whether a host answered that is no node. Fenced:
// a lost node may still answer although its agent is dead.
func (s *segment) judge(asked []netip.Addr, living map[netip.Addr]bool, witness, fenced bool) {
	s.asking, s.living = false, len(living) > 0
	s.rounds++
	if !s.living || !witness {
		clear(s.denied)
	}
	if !witness {
		s.missed++
		clear(s.silent)
		return
	}
	s.missed = 0
	if fenced {
		return // in a moment it may be silent altogether
	}
	for _, addr := range asked {
		if s.silent[addr]++; s.living {
			s.denied[addr]++
		}
		if living[addr] {
			delete(s.silent, addr)
			delete(s.denied, addr)
		}
	}
}

// wait returns how long to wait for the next round.
func (s *segment) wait(fenced bool) time.Duration {
	switch {
	case s.living && fenced, s.missed == 1:
		return 0
	case s.rounds < surveyOften:
		return surveyPeriod
	}
	return surveySeldom
}

// beAlone follows whether this agent has lost all others.
func (a *agent) beAlone(alone bool) {
	switch {
	case alone && a.solitude == nil:
		a.solitude = newSolitude()
		a.log.Warn("all other agents are lost: asking the LAN which of them answer")
	case !alone && a.solitude != nil:
		a.solitude = nil
		a.announcer.Listen(nil)
	}
}

// presume returns the nodes that were lost, and that were heard or that the API server
// calls Ready: they count as alive where the LAN does not say otherwise. A node whose
// kubelet is late is not Ready, and may yet announce what it has.
func (a *agent) presume(nodes []corev1.Node, now time.Time) map[string]bool {
	if a.solitude == nil {
		return nil
	}
	out := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		if _, died := a.group.Died(n.Name); died && (kubeapi.NodeReady(n) || a.solitude.hears(n.Name, now)) {
			out[n.Name] = true
		}
	}
	return out
}

// electorate returns the nodes that can be elected for an address on interfaces of
// this node, and those of them that are presumed to be alive.
func (a *agent) electorate(addr netip.Addr, ifaces []string, now time.Time) ([]elect.Node, map[string]bool) {
	if a.solitude == nil || !a.solitude.allows(addr, ifaces, now) {
		return a.voters, a.presumed
	}
	alive := slices.Clone(a.voters)
	for i := range alive {
		alive[i].Alive = alive[i].Alive && !a.presumed[alive[i].Name]
	}
	return alive, nil
}

// askLAN asks on all segments that are due, and announces what this node has.
func (a *agent) askLAN(now time.Time) {
	s := a.solitude
	if s == nil || len(a.presumed) == 0 && a.api.reachable() {
		return // what is known of the lost is enough
	}
	sample := a.sample()
	maps.DeleteFunc(s.segments, func(name string, _ *segment) bool { _, used := sample[name]; return !used })
	var hosts map[string][]link.Host
	for name, addrs := range sample {
		seg := s.segments[name]
		if seg == nil {
			seg = newSegment()
			s.segments[name] = seg
		}
		if seg.asking || now.Before(seg.next) {
			continue
		}
		if hosts == nil {
			hosts = a.hosts()
			a.announcer.Listen(slices.Collect(maps.Keys(a.directory.addresses)))
		}
		seg.asking = true
		a.announcer.Survey(name, a.questions(name, addrs[:min(len(addrs), maxSample)]), a.witnesses(name, hosts[name]))
	}
	if now.Sub(s.reminded) < remindPeriod {
		return
	}
	for _, seg := range s.segments {
		if seg.witnessed() {
			s.reminded = now
			a.announcer.Remind()
			return
		}
	}
}

// sample returns the addresses that are not here, by interface on which they would
// be: those that a lost node had first, then those that were asked for least.
func (a *agent) sample() map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for addr := range a.directory.addresses {
		h := a.held[addr]
		for _, name := range a.ifacesOf(addr) {
			if _, known := out[name]; !known {
				out[name] = nil // the segment counts, also if everything on it is here
			}
			if h == nil || !h.up {
				out[name] = append(out[name], addr)
			}
		}
	}
	for name, addrs := range out {
		silent := map[netip.Addr]int{}
		if seg := a.solitude.segments[name]; seg != nil {
			silent = seg.silent
		}
		rank := func(addr netip.Addr) int {
			for _, c := range a.claimed(addr) {
				if c.Up && c.Node != a.node {
					return silent[addr]
				}
			}
			return silent[addr] + 1
		}
		slices.SortFunc(addrs, func(x, y netip.Addr) int {
			if d := rank(x) - rank(y); d != 0 {
				return d
			}
			return x.Compare(y)
		})
	}
	return out
}

func (a *agent) hosts() map[string][]link.Host {
	hosts, err := a.kernel.Hosts()
	if err != nil {
		a.log.Error("neighbours not read", "error", err)
	}
	return hosts
}

// questions asks for addresses on an interface.
func (a *agent) questions(iface string, addrs []netip.Addr) (out []Question) {
	at := slices.IndexFunc(a.links, func(l link.Link) bool { return l.Name == iface })
	for _, addr := range addrs {
		q := Question{Addr: addr}
		if at >= 0 {
			q.From = ownAddress(&a.links[at], addr)
		}
		out = append(out, q)
	}
	return out
}

// witnesses asks hosts that are no nodes, on the segment of an interface.
func (a *agent) witnesses(iface string, hosts []link.Host) (out []Question) {
	at := slices.IndexFunc(a.links, func(l link.Link) bool { return l.Name == iface })
	for _, h := range hosts {
		_, service := a.directory.addresses[h.Addr]
		if at < 0 || len(out) == maxWitnesses || service || a.directory.nodes.Has(h.Addr) || h.MAC != nil && a.nodeOf(h.MAC) != "" {
			continue
		}
		out = append(out, Question{Addr: h.Addr, From: ownAddress(&a.links[at], h.Addr)})
	}
	return out
}

// ownAddress returns the address of l in a network with other, or none.
func ownAddress(l *link.Link, other netip.Addr) netip.Addr {
	for _, p := range l.Prefixes {
		if lb.FamilyOf(p.Addr()) == lb.FamilyOf(other) && p.Contains(other) {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// surveyed takes over what a round of questions brought.
func (a *agent) surveyed(n News, now time.Time) {
	if a.solitude == nil || a.solitude.segments[n.Interface] == nil {
		return
	}
	seg := a.solitude.segments[n.Interface]
	living, witness, fenced := map[netip.Addr]bool{}, false, false
	for addr, mac := range n.Answers {
		switch node := a.nodeOf(mac); node {
		case "":
			witness = true
		case a.node:
		default: // an answer for its own address says nothing about its agent
			if slices.Contains(n.Asked, addr) {
				living[addr] = true
				fenced = a.fenced(node, now) || fenced
			}
		}
	}
	seg.judge(n.Asked, living, witness, fenced)
	seg.next = now.Add(seg.wait(fenced))
	if len(living) == 0 && witness {
		a.reconsider()
	}
	a.membersDirty = true
}

// fenced says whether the kernel of a lost node may answer although the agent there
// is dead: its fence may not have expired yet.
func (a *agent) fenced(node string, now time.Time) bool {
	died, ok := a.diedAt(node)
	return ok && now.Before(died.Add(nft.FenceTime+fenceMargin))
}

// listen notes that a lost node was heard to announce addr, without having been
// asked: it may not hear what this node asks.
func (a *agent) listen(node string, addr netip.Addr, now time.Time) {
	a.solitude.heard[node], a.solitude.seen[addr] = now, now
}

// reconsider looks again at addresses that were left to lost nodes, now that those are
// silent.
func (a *agent) reconsider() {
	for _, h := range a.held {
		if h.rival != nil && h.lost && !h.probing {
			h.rival, h.lost = nil, false
		}
	}
}

// Question is for the host that has Addr.
type Question struct {
	Addr netip.Addr
	From netip.Addr // an address of this node on the same network, if there is one
}

// Answers are who has the addresses that were asked for.
type Answers = map[netip.Addr]net.HardwareAddr
