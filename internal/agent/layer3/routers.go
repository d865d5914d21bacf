package layer3

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// Options of Routers.
type Options struct {
	Log *slog.Logger
	// Alive says whether the agent's loop still makes decisions. While it does not, neither
	// keepalives nor BFD packets are sent, so that routers lead traffic to other nodes.
	Alive func() bool
	// Registry of the metrics.
	Registry prometheus.Registerer
	// Network and Wire, if not nil, replace the node's.
	Network bgp.Network
	Wire    bfd.Wire
}

// Routers has the sessions of this node with routers.
type Routers struct {
	o       Options
	ctx     context.Context
	cancel  context.CancelFunc
	bgp     *bgp.Speaker
	bfd     *bfd.Speaker
	news    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	links    []link.Link
	up       map[string]bool // interfaces, by name
	routerID netip.Addr
	peers    map[string]*peer
	stopped  bool
	// inherited are the paths that an earlier process watched, by peer, until the first Set.
	inherited map[string]bfd.Peer
	begin     func() // hears of both speakers from now on
	grace     atomic.Int64
}

// peer is one router, as it is wanted, and what is known of it.
type peer struct {
	lb.Peer
	invalid string // why it cannot be used here
	// watch is the BFD session: since there was a BGP session, which knows the addresses.
	watch *bfd.Peer
	// downs is how often BFD had failed when it was last looked at, and up whether it was up.
	downs uint64
	up    bool
}

var _ agent.Routers = (*Routers)(nil)

// New returns Routers without peers. They end when they are closed or stopped, not with ctx:
// an agent that is told to end takes its leave first.
func New(ctx context.Context, o Options) *Routers {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if o.Network == nil {
		o.Network = bgp.Kernel{}
	}
	r := &Routers{o: o, ctx: ctx, cancel: cancel, news: make(chan struct{}, 1), peers: map[string]*peer{}, up: map[string]bool{}}
	r.bgp = bgp.Start(ctx, bgp.Config{Network: o.Network, Alive: r.alive, Log: o.Log})
	r.bfd = bfd.New(ctx, bfd.Options{Wire: o.Wire, Beats: r.alive})
	r.begin = sync.OnceFunc(func() { r.running.Go(r.watch) })
	if o.Registry != nil {
		o.Registry.MustRegister(NewCollector(r.Statuses))
	}
	return r
}

// News has a value when a status has changed.
func (r *Routers) News() <-chan struct{} { return r.news }

// watch hears of both speakers until the end. It does not wait for the agent's loop: a path
// that has failed is left at once.
func (r *Routers) watch() {
	r.mu.Lock()
	paths := r.bfd.News()
	r.mu.Unlock()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.bgp.News():
		case <-paths:
		}
		r.mu.Lock()
		if !r.stopped {
			r.heed()
		}
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

// heed has BGP follow BFD, and BFD watch the paths of sessions that have begun; r.mu is held.
func (r *Routers) heed() {
	changed := false
	for name, p := range r.peers {
		if s, ok := r.bgp.Status(name); ok && p.BFD != nil && s.State == bgp.Established {
			if path := r.path(p, &s); p.watch == nil || *p.watch != path {
				p.watch, p.downs, p.up, changed = &path, r.downs(path), false, true
			}
		}
	}
	if changed {
		r.setBFD()
	}
	for _, s := range r.bfd.Statuses() {
		for name, p := range r.peers {
			if p.watch == nil || *p.watch != s.Peer {
				continue
			}
			if s.Downs > p.downs {
				r.bgp.BFDDown(name)
			}
			if up := s.State == bfd.Up; up && !p.up {
				r.bgp.Retry(name)
			}
			p.downs, p.up = s.Downs, s.State == bfd.Up
		}
	}
}

// path is what BFD watches for a session.
func (r *Routers) path(p *peer, s *bgp.Status) bfd.Peer {
	far := p.Multihop
	if internal := s.PeerAS == p.LocalAS; internal && !s.Remote.IsLinkLocalUnicast() {
		far = !slices.ContainsFunc(r.links, func(l link.Link) bool {
			return slices.ContainsFunc(l.Prefixes, func(n netip.Prefix) bool { return n.Contains(s.Remote.WithZone("")) })
		})
	}
	return bfd.Peer{Local: s.Local, Remote: s.Remote, Multihop: far, Device: p.VRF}
}

// setBFD has the paths of all peers watched; r.mu is held.
func (r *Routers) setBFD() {
	want := map[bfd.Peer]bfd.Profile{}
	for _, p := range r.peers {
		if b := p.BFD; p.watch != nil && b != nil {
			want[*p.watch] = bfd.Profile{Transmit: b.Transmit, Receive: b.Receive, Multiplier: b.Multiplier, Passive: b.Passive, MinTTL: b.MinTTL}
		}
	}
	r.bfd.Set(want)
}

// Follow takes over the interfaces. Peers are tried again at once if one has come up.
func (r *Routers) Follow(links []link.Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	up, risen := map[string]bool{}, false
	for i := range links {
		if links[i].Up {
			up[links[i].Name] = true
			risen = risen || !r.up[links[i].Name]
		}
	}
	r.links, r.up = links, up
	if !risen {
		return
	}
	for name := range r.peers {
		r.bgp.Retry(name)
	}
}

// Set says which peers there are, and what is announced to each.
func (r *Routers) Set(routerID netip.Addr, peers []lb.Peer, tables map[string]bgp.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.routerID = routerID
	want, now := map[string]bgp.Peer{}, map[string]*peer{}
	var later []string
	for i := range peers {
		p := &peer{Peer: peers[i]}
		if was := r.peers[p.Name]; was != nil && was.SameSession(&p.Peer) {
			p.watch, p.downs, p.up = was.watch, was.downs, was.up
		}
		if path, had := r.inherited[p.Name]; had && p.BFD != nil {
			p.watch, p.downs = &path, r.downs(path)
		}
		now[p.Name] = p
		if p.Waiting != "" {
			p.invalid, later = p.Waiting, append(later, p.Name)
			continue
		}
		session, err := r.session(&p.Peer)
		if err == nil {
			err = session.Check()
		}
		if err != nil {
			p.invalid = err.Error()
			continue
		}
		want[p.Name] = session
	}
	r.peers, r.inherited = now, nil
	r.begin()
	r.bgp.SetPeers(want, later...)
	for name := range want {
		r.bgp.Set(name, tables[name])
	}
	r.setBFD()
}

// downs is how often the path has failed so far; r.mu is held.
func (r *Routers) downs(path bfd.Peer) uint64 {
	for _, s := range r.bfd.Statuses() {
		if s.Peer == path {
			return s.Downs
		}
	}
	return 0
}

// Statuses of all peers, by name.
func (r *Routers) Statuses() []agent.PeerStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	paths := r.bfd.Statuses()
	var out []agent.PeerStatus
	for _, name := range slices.Sorted(maps.Keys(r.peers)) {
		p := r.peers[name]
		s := agent.PeerStatus{Name: name, Peer: p.Peer, Invalid: p.invalid}
		s.Status, _ = r.bgp.Status(name)
		if s.State == bgp.Established && s.Families[lb.IPv4] {
			s.Filtered = filtered(r.links, s.Local)
		}
		if i := slices.IndexFunc(paths, func(b bfd.Status) bool { return p.watch != nil && b.Peer == *p.watch }); i >= 0 && p.BFD != nil {
			s.BFD = &paths[i]
		}
		out = append(out, s)
	}
	return out
}

// Stop ends all sessions, and tells routers why.
func (r *Routers) Stop(ctx context.Context, why string) {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.bgp.Stop(ctx, why)
	r.paths().Close(ctx)
}

func (r *Routers) paths() *bfd.Speaker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bfd
}

// Close ends everything without a word to routers.
func (r *Routers) Close() {
	r.cancel()
	r.running.Wait()
	r.bgp.Wait()
	r.paths().Close(r.ctx)
}

// session is how bgp has a peer.
func (r *Routers) session(p *lb.Peer) (bgp.Peer, error) {
	out := bgp.Peer{
		Address: p.Address, Interface: p.Interface, Port: p.Port, Source: p.Source, VRF: p.VRF, Password: p.Password,
		LocalAS: p.LocalAS, PeerAS: p.PeerAS, ASRule: bgp.ASRule(p.ASRule), RouterID: p.RouterID,
		Hold: p.Hold, Keepalive: p.Keepalive, ConnectTime: p.ConnectTime,
		DualStack: p.DualStack, NextHops: p.NextHops, GracefulRestart: p.GracefulRestart, MaxPrefixes: p.MaxPrefixes,
	}
	if !out.Address.IsValid() {
		out.Address = netip.Addr{}
	}
	var err error
	if p.RouterIDInterface != "" && !out.RouterID.IsValid() {
		if out.RouterID, err = r.addressOn(p.RouterIDInterface, lb.IPv4); err != nil {
			return out, err
		}
	}
	if !out.RouterID.IsValid() {
		out.RouterID = r.routerID
	}
	if p.SourceInterface != "" && !out.Source.IsValid() && p.Address.IsValid() {
		out.Source, err = r.addressOn(p.SourceInterface, lb.FamilyOf(p.Address))
	}
	return out, err
}

// addressOn returns the first address of an interface; r.mu is held.
func (r *Routers) addressOn(name string, f lb.Family) (netip.Addr, error) {
	i := slices.IndexFunc(r.links, func(l link.Link) bool { return l.Name == name })
	if i < 0 {
		return netip.Addr{}, fmt.Errorf("interface %s does not exist", name)
	}
	for _, prefix := range r.links[i].Prefixes {
		if a := prefix.Addr(); lb.FamilyOf(a) == f && !a.IsLinkLocalUnicast() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no %s address", name, f)
}

// filtered returns the name of the interface with this address if the kernel drops what clients
// send through it, as far as its default route says; "" if not.
func filtered(links []link.Link, local netip.Addr) string {
	for i := range links {
		l := &links[i]
		here := slices.ContainsFunc(l.Prefixes, func(p netip.Prefix) bool { return p.Addr() == local.WithZone("") }) || local.Zone() != "" && local.Zone() == l.Name
		if here && l.Strict && !l.Default[lb.IPv4] {
			return l.Name
		}
	}
	return ""
}
