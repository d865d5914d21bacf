package agentsim

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// Routers are all routers, as one node sees them. They take every session, but those that
// Refuse names.
type Routers struct {
	news chan struct{}

	mu      sync.Mutex
	peers   []lb.Peer
	tables  map[string]bgp.Table
	refused map[string]bgp.Failure
	// withheld prefixes are not announced, by peer.
	withheld map[string][]bgp.Withheld
	began    time.Time
}

var _ agent.Routers = (*Routers)(nil)

// NewRouters returns routers that take every session.
func NewRouters() *Routers {
	return &Routers{news: make(chan struct{}, 1), refused: map[string]bgp.Failure{}, withheld: map[string][]bgp.Withheld{}, began: time.Now()}
}

// Refuse has the router of a peer end its session, and take no other, for this reason.
func (r *Routers) Refuse(peer string, why bgp.Failure) { r.change(func() { r.refused[peer] = why }) }

// Take has the router of a peer take sessions again.
func (r *Routers) Take(peer string) { r.change(func() { delete(r.refused, peer) }) }

// Withhold has exactly these prefixes not be announced to a peer: they are more than its router
// takes.
func (r *Routers) Withhold(peer string, prefixes ...netip.Prefix) {
	r.change(func() {
		r.withheld[peer] = nil
		for _, p := range prefixes {
			r.withheld[peer] = append(r.withheld[peer], bgp.Withheld{Prefix: p, Why: bgp.OverMaximum})
		}
	})
}

func (r *Routers) change(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default: // it is known already
	}
}

// Set takes over peers and tables.
func (r *Routers) Set(_ netip.Addr, peers []lb.Peer, tables map[string]bgp.Table) {
	r.change(func() { r.peers, r.tables = slices.Clone(peers), tables })
}

// Statuses of all peers, by name.
func (r *Routers) Statuses() (out []agent.PeerStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.peers {
		s := agent.PeerStatus{Name: p.Name, Peer: p}
		if why, is := r.refused[p.Name]; is {
			s.Failure = &why
		} else {
			s.Status = bgp.Status{State: bgp.Established, Since: r.began, Established: 1, PeerAS: p.PeerAS, Remote: p.Address, Prefixes: len(r.tables[p.Name]),
				Families: [len(lb.Families)]bool{true, true}, Synced: true, Withheld: r.withheld[p.Name]}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b agent.PeerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// News has a value when a status has changed.
func (r *Routers) News() <-chan struct{} { return r.news }

// Stop ends all sessions.
func (r *Routers) Stop(context.Context, string) { r.change(func() { r.peers = nil }) }

// Follow, Freeze, Continue and Close do nothing.
func (*Routers) Follow([]link.Link)                     {}
func (*Routers) Freeze(context.Context) ([]byte, []int) { return nil, nil }
func (*Routers) Continue([]byte, []int)                 {}
func (*Routers) Close()                                 {}
