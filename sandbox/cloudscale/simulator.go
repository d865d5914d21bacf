package cloudscale

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"fairlead.io/sandbox/simulator"
)

// Busy says what happens to a change of a load balancer that is changing.
type Busy string

const (
	// BusyRefuses answers 400 until the load balancer has changed. It is the
	// default, for who copes with it copes with the other too.
	BusyRefuses Busy = "refuse"
	// BusyWaits lets a change wait for the one before it, so that changes of
	// one load balancer happen one after the other. The cloud's own tests
	// change running load balancers without a pause, so it cannot refuse them.
	// While a load balancer is being made, changes of it are refused here too.
	BusyWaits Busy = "wait"
)

// Options of a simulator. The zero value is a good start.
type Options struct {
	Token         string // may do everything; default "sandbox"
	ReadOnlyToken string // may only read; default: there is none
	// Creating and Changing are how long a load balancer is "changing" after
	// it was made, and after a change. Default one second; negative: not at all.
	Creating, Changing time.Duration
	Busy               Busy // default BusyRefuses
	// KeepListeners leaves the listeners of a deleted pool without a pool.
	// Otherwise they go with it. It is not known which of the two the cloud does.
	KeepListeners bool
	// Public are the prefixes that public addresses of each zone are taken
	// from, one of each family, and FloatingIPs those of floating IPs.
	// Default: prefixes that are set aside for documentation.
	Public      map[string][]netip.Prefix
	FloatingIPs []netip.Prefix
	Reserved    []netip.Prefix // whose addresses are given to nobody who does not ask for them
	Seed        uint64         // of all UUIDs; the same seed gives the same
	Clock       simulator.Clock
}

// Simulator is a simulated cloud, safe for concurrent use.
type Simulator struct {
	*simulator.Front
	options Options

	mu           sync.Mutex
	random       *rand.Rand
	networks     simulator.Table[Network]
	subnets      simulator.Table[Subnet]
	publicNets   map[string]Network // by zone; not in any list
	publicSubs   simulator.Table[Subnet]
	servers      simulator.Table[Server]
	lbs          simulator.Table[LoadBalancer]
	pools        simulator.Table[Pool]
	members      simulator.Table[Member]
	listeners    simulator.Table[Listener]
	monitors     simulator.Table[HealthMonitor]
	fips         simulator.Table[FloatingIP]
	lastTaken    map[netip.Prefix]netip.Addr
	unreachable  map[netip.Addr]bool
	probed       bool // health comes from real checks
	changedState func()
}

// New returns a cloud with two zones and nothing in them.
func New(o Options) *Simulator {
	if o.Token == "" {
		o.Token = "sandbox"
	}
	if o.Creating == 0 {
		o.Creating = time.Second
	}
	if o.Changing == 0 {
		o.Changing = time.Second
	}
	if o.Busy == "" {
		o.Busy = BusyRefuses
	}
	if o.Public == nil {
		o.Public = map[string][]netip.Prefix{
			"lpg1": {netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
			"rma1": {netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:2::/64")},
		}
	}
	if o.FloatingIPs == nil {
		o.FloatingIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:f::/48")}
	}
	s := &Simulator{
		options:      o,
		random:       rand.New(rand.NewPCG(o.Seed, 0)),
		publicNets:   make(map[string]Network),
		lastTaken:    make(map[netip.Prefix]netip.Addr),
		unreachable:  make(map[netip.Addr]bool),
		changedState: func() {},
	}
	s.pools.Group = func(p *Pool) string { return p.LoadBalancer }
	s.listeners.Group = func(l *Listener) string { return l.LoadBalancer }
	s.members.Group = func(m *Member) string { return m.Pool }
	s.monitors.Group = func(m *HealthMonitor) string { return m.Pool }
	s.Front = simulator.NewFront(s, o.Clock, header)
	for _, zone := range zones {
		network := Network{UUID: s.uuid(), Name: "Public", Zone: zone}
		s.publicNets[zone] = network
		for _, p := range o.Public[zone] {
			id := s.uuid()
			s.publicSubs.Add(id, &Subnet{UUID: id, Network: network.UUID, CIDR: p, Gateway: p.Addr().Next()})
		}
	}
	return s
}

// Token is the one that may do everything.
func (s *Simulator) Token() string { return s.options.Token }

// uuid returns a new one.
func (s *Simulator) uuid() string { return simulator.UUID(s.random) }

// Settle ends every change that is under way, as if its time had passed.
func (s *Simulator) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for lb := range s.lbs.All() {
		if lb.busyUntil.After(now) {
			lb.busyUntil = now
		}
		if lb.built.After(now) {
			lb.built = now
		}
	}
	for server := range s.servers.All() {
		if server.changed.After(now) {
			server.changed = now
		}
	}
	for m := range s.members.All() {
		m.health.settled = true
	}
	s.changedState()
}
