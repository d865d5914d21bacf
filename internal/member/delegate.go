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

// NodeMeta is not used: it is limited to 512 bytes.
func (d delegate) NodeMeta(int) []byte { return nil }

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.queue.GetBroadcasts(overhead, limit)
}

// NotifyMsg takes in a message and passes on what was new.
func (d delegate) NotifyMsg(message []byte) {
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
	if learned {
		g.claims = nil
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

func (e events) NotifyJoin(n *memberlist.Node) {
	addr, ok := netip.AddrFromSlice(n.Addr)
	if !ok {
		return
	}
	e.g.move(func() {
		e.g.members[n.Name] = netip.AddrPortFrom(addr.Unmap(), n.Port)
		delete(e.g.departed, n.Name)
		e.g.book.adopt(n.Name)
		if n.Name != e.g.self {
			e.g.greet[n.Name] = true
		}
	})
	if n.Name != e.g.self {
		e.g.log.Info("member joined", "member", n.Name, "address", addr.Unmap())
		signal(e.g.wake)
	}
}

func (e events) NotifyLeave(n *memberlist.Node) {
	var d departure
	e.g.move(func() {
		d = departure{at: time.Now(), addr: e.g.members[n.Name]}
		if p := e.g.book.pages[n.Name]; p != nil {
			d.left = p.info.left
		}
		delete(e.g.members, n.Name)
		delete(e.g.greet, n.Name)
		if n.Name != e.g.self {
			e.g.departed[n.Name] = d
			e.g.book.orphan(n.Name, d.at)
			if !d.left {
				e.g.deaths++
			}
		}
	})
	switch {
	case n.Name == e.g.self:
	case d.left:
		e.g.log.Info("member left", "member", n.Name)
	default:
		e.g.log.Info("member died", "member", n.Name)
	}
}

// NotifyUpdate tells of a changed NodeMeta, which there is not.
func (e events) NotifyUpdate(*memberlist.Node) {}

// move changes the set of members.
func (g *Group) move(change func()) {
	g.mu.Lock()
	change()
	g.claims = nil
	g.size.Store(int32(len(g.members)))
	g.mu.Unlock()
	signal(g.changed)
}
