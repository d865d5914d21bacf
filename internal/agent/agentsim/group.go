// Package agentsim runs agents without nodes: the daemon's own loop and reporter on a
// real API server, with a kernel, a network and gossip in memory. It is for tests and
// benchmarks of many agents on one machine.
package agentsim

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/member"
)

// Gossip is a network on which every member knows at once what the others say.
type Gossip struct {
	mu   sync.Mutex
	all  map[string]*Group
	died map[string]time.Time
}

// NewGossip has no members.
func NewGossip() *Gossip {
	return &Gossip{all: map[string]*Group{}, died: map[string]time.Time{}}
}

// Group is one member's view of the others.
type Group struct {
	gossip  *Gossip
	name    string
	addr    netip.AddrPort
	meta    member.Meta
	claims  []member.Claim
	cut     bool // it hears nothing, and nobody hears it
	changed chan struct{}
}

var _ agent.Group = (*Group)(nil)

// Start adds a member.
func (g *Gossip) Start(name string, addr netip.AddrPort) *Group {
	m := &Group{gossip: g, name: name, addr: addr, changed: make(chan struct{}, 1)}
	g.change(func() {
		g.all[name] = m
		delete(g.died, name)
	})
	return m
}

// Kill has a member die: all others find it dead, and it hears no more of them. What
// it claimed is orphaned.
func (g *Gossip) Kill(name string) {
	g.change(func() {
		g.all[name].cut = true
		g.died[name] = time.Now()
	})
}

// change changes what members say, and lets all know.
func (g *Gossip) change(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	for _, m := range g.all {
		if !m.cut {
			m.signal()
		}
	}
}

func (m *Group) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Addr is as member.Group.Addr.
func (m *Group) Addr() netip.AddrPort { return m.addr }

// Members is as member.Group.Members.
func (m *Group) Members() (out []member.Member) {
	m.gossip.mu.Lock()
	defer m.gossip.mu.Unlock()
	for _, o := range m.gossip.all {
		if !o.cut || o == m {
			out = append(out, member.Member{Name: o.name, Addr: o.addr, Meta: o.meta})
		}
	}
	slices.SortFunc(out, func(a, b member.Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Claims is as member.Group.Claims.
func (m *Group) Claims() map[member.Key][]member.Claim {
	m.gossip.mu.Lock()
	defer m.gossip.mu.Unlock()
	out := map[member.Key][]member.Claim{}
	for _, o := range m.gossip.all {
		for _, c := range o.claims {
			if c.Node = o.name; o.cut && o != m {
				c.Standing = member.Orphaned
			}
			out[c.Key] = append(out[c.Key], c)
		}
	}
	return out
}

// SetMeta is as member.Group.SetMeta.
func (m *Group) SetMeta(meta member.Meta) {
	m.gossip.mu.Lock()
	same := equal(m.meta, meta)
	m.gossip.mu.Unlock()
	if !same {
		m.gossip.change(func() { m.meta = meta })
	}
}

func equal(a, b member.Meta) bool {
	return a.Eligible == b.Eligible && a.Leaving == b.Leaving && slices.Equal(a.Links, b.Links) && len(a.MACs) == len(b.MACs)
}

// SetClaims is as member.Group.SetClaims.
func (m *Group) SetClaims(own []member.Claim) {
	m.gossip.change(func() { m.claims = slices.Clone(own) })
}

// Changed is as member.Group.Changed.
func (m *Group) Changed() <-chan struct{} { return m.changed }

// Synced is as member.Group.Synced.
func (m *Group) Synced() bool { return true }

// Died is as member.Group.Died.
func (m *Group) Died(node string) (time.Time, bool) {
	m.gossip.mu.Lock()
	defer m.gossip.mu.Unlock()
	at, ok := m.gossip.died[node]
	return at, ok && node != m.name
}

// Join is as member.Group.Join; all are known already.
func (m *Group) Join(context.Context, []netip.AddrPort) (int, error) { return 0, nil }

// Leave is as member.Group.Leave.
func (m *Group) Leave(context.Context) error {
	m.Close()
	return nil
}

// Close ends the membership.
func (m *Group) Close() {
	m.gossip.change(func() {
		if m.gossip.all[m.name] == m && !m.cut {
			delete(m.gossip.all, m.name)
		}
	})
}

// Post loses all letters: there are no connections to tell each other about.
func (m *Group) Post(string, []byte) error { return nil }

// Mail never has a value.
func (m *Group) Mail() <-chan struct{} { return nil }

// Letters are none.
func (m *Group) Letters() []member.Letter { return nil }
