package member

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist asks and tells about our messages. It must not
// block.
type delegate struct{ g *Group }

var _ memberlist.Delegate = delegate{}

// NodeMeta says only that we answer questions: it is limited to 512 bytes.
func (d delegate) NodeMeta(int) []byte { return proves }

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.queue.GetBroadcasts(overhead, limit)
}

// NotifyMsg takes in a message and passes on what was new.
func (d delegate) NotifyMsg(message []byte) {
	if q, err := decodeQuestion(message); err == nil {
		d.g.asked(q)
		return
	}
	if nonce, name, err := decodeAnswer(message); err == nil {
		d.g.answered(nonce, name)
		return
	}
	if l, err := decodeLetter(message); err == nil {
		d.g.deliver(l)
		return
	}
	r, err := decode(message)
	if err != nil {
		d.g.log.Debug("message of a member", "error", err)
		return
	}
	if d.g.learn(r) && d.g.size.Load() > 2 {
		d.g.gossip(bytes.Clone(message))
	}
}

func (d delegate) LocalState(bool) []byte {
	g := d.g
	g.mu.Lock()
	now := time.Now()
	reports := make([]report, 0, len(g.book.pages))
	for name := range g.book.pages {
		reports = append(reports, g.book.whole(name, now))
	}
	synced := g.synced
	g.mu.Unlock()
	return encodeExchange(reports, synced)
}

// MergeRemoteState takes in what another member knows. It is not passed on: the
// other does the same with everybody, and each node tells new members itself.
func (d delegate) MergeRemoteState(state []byte, _ bool) {
	reports, synced, err := decodeExchange(state)
	if err != nil {
		d.g.log.Debug("state of a member", "error", err)
		return
	}
	d.g.learn(reports...)
	if synced {
		d.g.setSynced()
	}
}

// learn merges reports and says whether any had news.
func (g *Group) learn(reports ...report) bool {
	g.mu.Lock()
	learned, refuted := false, false
	now := time.Now()
	for _, r := range reports {
		_, member := g.members[r.node]
		switch g.book.merge(r, member, now) {
		case news:
			learned = true
			if d, ok := g.departed[r.node]; ok && !d.left && g.book.pages[r.node].info.left {
				d.left = true // its farewell came after the news that it is gone
				g.departed[r.node] = d
				g.deaths--
			}
		case accused:
			if now.Sub(g.refuted) >= refuteInterval {
				g.book.refute(r)
				g.refuted, refuted = now, true
			}
		case old:
		}
	}
	g.mu.Unlock()
	if refuted {
		g.log.Warn("other members have newer claims from this node's name than it sent: check for a clock set back or a second node with this name")
		signal(g.wake)
	}
	if learned {
		signal(g.changed)
	}
	return learned
}

// events is what memberlist tells about members. It holds its lock meanwhile.
type events struct{ g *Group }

var _ memberlist.EventDelegate = events{}

// NotifyJoin begins to ask the node whether it is there. Agents of builds that do
// not answer are members at once.
func (e events) NotifyJoin(n *memberlist.Node) {
	ip, ok := netip.AddrFromSlice(n.Addr)
	if !ok {
		return
	}
	addr := netip.AddrPortFrom(ip.Unmap(), n.Port)
	g := e.g
	g.mu.Lock()
	if n.Name == g.self || !bytes.Equal(n.Meta, proves) {
		g.admit(n.Name, addr)
	} else {
		g.doubted(n.Name, addr)
	}
	if n.Name != g.self {
		g.greet[n.Name] = true
	}
	g.mu.Unlock()
	if n.Name != g.self {
		signal(g.wake)
	}
}

func (e events) NotifyLeave(n *memberlist.Node) {
	g := e.g
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.greet, n.Name)
	delete(g.doubts, n.Name)
	g.settle(time.Now())
	addr, member := g.members[n.Name]
	if !member { // it has never answered
		return
	}
	d := departure{at: time.Now(), addr: addr}
	if p := g.book.pages[n.Name]; p != nil {
		d.left = p.info.left
	}
	delete(g.members, n.Name)
	g.book.turned = true
	g.size.Store(int32(len(g.members)))
	signal(g.changed)
	if n.Name == g.self {
		return
	}
	g.departed[n.Name] = d
	g.book.orphan(n.Name, d.at)
	if d.left {
		g.log.Info("member left", "member", n.Name)
		return
	}
	g.deaths++
	g.log.Info("member died", "member", n.Name)
}

// NotifyUpdate tells of a changed NodeMeta, which there is not.
func (e events) NotifyUpdate(*memberlist.Node) {}
