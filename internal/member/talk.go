package member

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// talk sends our changes to all members, and all that we say to new ones.
func (g *Group) talk() {
	g.talking.Lock()
	defer g.talking.Unlock()

	g.mu.Lock()
	changes, changed := g.book.unsent()
	var whole report
	if len(g.greet) > 0 {
		whole = g.book.whole(g.self, time.Now())
	}
	var known, fresh []*memberlist.Node
	for name, addr := range g.members {
		switch {
		case name == g.self:
		case g.greet[name]:
			fresh = append(fresh, node(name, addr))
		default:
			known = append(known, node(name, addr))
		}
	}
	for name, d := range g.doubts { // they may know us, and wait for what we say
		if g.greet[name] {
			fresh = append(fresh, node(name, d.addr))
		} else {
			known = append(known, node(name, d.addr))
		}
	}
	clear(g.greet)
	g.mu.Unlock()

	if changed && len(known) > 0 {
		messages := split(changes)
		g.send(known, messages)
		for _, m := range messages {
			g.gossip(m)
		}
	}
	if len(fresh) > 0 {
		g.send(fresh, split(whole))
	}
}

func (g *Group) send(to []*memberlist.Node, messages [][]byte) {
	for _, node := range to {
		for _, m := range messages {
			if err := g.list.SendBestEffort(node, m); err != nil {
				g.log.Debug("send to member", "member", node.Name, "error", err)
				break // gossip, or the next exchange, will do
			}
		}
	}
}

// gossip has a message passed on to random members in the next rounds.
func (g *Group) gossip(message []byte) {
	if len(message) <= messageSize {
		g.queue.QueueBroadcast(broadcast(message))
	}
}

// broadcast is a message in the queue. None makes another one obsolete: each has
// other changes, and members that know them already do not pass them on.
type broadcast []byte

var _ memberlist.UniqueBroadcast = broadcast(nil)

func (b broadcast) Invalidates(memberlist.Broadcast) bool { return false }
func (b broadcast) Message() []byte                       { return b }
func (b broadcast) Finished()                             {}
func (b broadcast) UniqueBroadcast()                      {}

// Leave tells the others that this node goes, so that they need not find out and
// do not take it for dead. Its addresses should be in other hands by then: see
// Meta.Leaving. It returns when that was said, or at the end of the context or of
// a second. Only Close makes sense afterwards.
func (g *Group) Leave(ctx context.Context) error {
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.ended {
		return nil
	}
	g.say(func() bool { return g.book.tell(func(i *info) { i.left = true }) })
	g.talk()
	select { // it should be there first
	case <-time.After(farewell):
	case <-ctx.Done():
	}
	limit := time.Second
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end), gossipInterval))
	}
	if err := g.list.Leave(limit); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}
