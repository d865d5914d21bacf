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
	claims  map[member.Key]member.Claim
	cut     bool // it hears nothing, and nobody hears it
	changed chan struct{}
	// claimed are the keys whose claims have changed, turned is that more has.
	claimed map[member.Key]bool
	turned  bool
}

var _ agent.Group = (*Group)(nil)

// Start adds a member.
func (g *Gossip) Start(name string, addr netip.AddrPort) *Group {
	m := &Group{gossip: g, name: name, addr: addr, claims: map[member.Key]member.Claim{}, changed: make(chan struct{}, 1), claimed: map[member.Key]bool{}}
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
	g.tell(do, func(m *Group) { m.turned = true })
}

// tell changes what members say, and has each of them note what it was.
func (g *Gossip) tell(do func(), note func(*Group)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	for _, m := range g.all {
		if !m.cut {
			note(m)
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
		for key := range o.claims {
			out[key] = append(out[key], m.claim(o, key))
		}
	}
	return out
}

// claim is what o claims of a key, as m sees it.
func (m *Group) claim(o *Group, key member.Key) member.Claim {
	c := o.claims[key]
	if c.Node = o.name; o.cut && o != m {
		c.Standing = member.Orphaned
	}
	return c
}

// Changes is as member.Group.Changes.
func (m *Group) Changes() (members bool, claims map[member.Key][]member.Claim) {
	m.gossip.mu.Lock()
	defer m.gossip.mu.Unlock()
	claims = map[member.Key][]member.Claim{}
	for key := range m.claimed {
		claims[key] = nil
		for _, o := range m.gossip.all {
			if _, has := o.claims[key]; has {
				claims[key] = append(claims[key], m.claim(o, key))
			}
		}
	}
	members, m.turned = m.turned, false
	clear(m.claimed)
	return members, claims
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
	m.gossip.change(func() {
		clear(m.claims)
		for _, c := range own {
			m.claims[c.Key] = c
		}
	})
}

// ChangeClaims is as member.Group.ChangeClaims.
func (m *Group) ChangeClaims(own []member.Claim, released []member.Key) {
	m.gossip.tell(func() {
		for _, c := range own {
			m.claims[c.Key] = c
		}
		for _, key := range released {
			delete(m.claims, key)
		}
	}, func(o *Group) {
		for _, c := range own {
			o.claimed[c.Key] = true
		}
		for _, key := range released {
			o.claimed[key] = true
		}
	})
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
