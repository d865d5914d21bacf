package dhcplease

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/lb"
)

// tombstoneTime is how long a claim is kept after the last Service of a lease is
// gone: other nodes hear by gossip that a claim has ended before they hear from the
// API server that there is nothing to claim, and would ask for what was just given
// back.
const tombstoneTime = 3 * time.Second

// Options of Leases.
type Options struct {
	Node string
	Log  *slog.Logger
	Host Host
	// Open opens an interface for DHCP; dhcp.Open if nil.
	Open func(iface string) (Port, error)
}

// Port is where DHCP clients of one interface send and hear.
type Port interface {
	dhcp.Transport
	Close() error
}

// Leases are those of one node. Only News may be used by another goroutine than
// all other methods.
type Leases struct {
	o    Options
	log  *slog.Logger
	host Host
	book

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	news    chan News

	held       map[string]*holding
	ports      map[string]openPort
	tombstones map[string]tombstone
	written    map[v1alpha1.LeaseOf]v1alpha1.Lease // in this node's Agent object
	refused    map[string]string                   // why no node can have a lease, as was reported
	dirty      map[string]bool
	postponed  map[string]bool
	// waiting are leases that are to be taken and wait, since then, for what agents
	// report; read is when that was last asked for.
	waiting map[string]time.Time
	read    time.Time
}

// holding is a lease that this node has, or asks for.
type holding struct {
	name     string
	family   lb.Family
	identity dhcp.Identity
	epoch    uint64
	since    time.Time
	iface    string
	index    int
	// had is the address that another node, or an earlier agent, had: nobody has to
	// check whether it is free.
	had   netip.Addr
	lease *dhcp.Lease // nil if there is none
	err   error
	// checked is the last address that was found usable, written until when others
	// know it to be leased; event is the last one that was written, at that time.
	checked netip.Addr
	written time.Time
	event   lb.Reason
	eventAt time.Time

	client  *dhcp.Client
	release atomic.Bool // when it ends
	end     context.CancelFunc
}

type tombstone struct {
	epoch uint64
	until time.Time
}

// News is what a DHCP client reports; for Heard.
type News struct {
	of    *holding
	lease *dhcp.Lease
	err   error
}

// New returns no leases yet. They end when they are closed, not with ctx: what an
// agent that is told to end still has to give back takes its time.
func New(ctx context.Context, o Options) *Leases {
	if o.Open == nil {
		o.Open = func(iface string) (Port, error) { return dhcp.Open(iface) }
	}
	l := &Leases{o: o, log: o.Log, host: o.Host, book: newBook(), news: make(chan News), held: map[string]*holding{}, ports: map[string]openPort{},
		tombstones: map[string]tombstone{}, written: map[v1alpha1.LeaseOf]v1alpha1.Lease{}, refused: map[string]string{}, dirty: map[string]bool{}, postponed: map[string]bool{}, waiting: map[string]time.Time{}}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// News is to be handed to Heard.
func (l *Leases) News() <-chan News { return l.news }

// SetCluster tells this cluster from others on the LAN.
func (l *Leases) SetCluster(uid types.UID) { l.cluster = uid }

// Set notes what a Service wants now; nil is nothing.
func (l *Leases) Set(service types.NamespacedName, w *Want) {
	l.notice(l.set(service, w))
}

func (l *Leases) notice(a affected) {
	l.Look(a.leases...)
	if len(a.services) > 0 {
		l.host.Moved(a.services...)
	}
}

// SetReported takes over what the Agent objects of all nodes said at that time; nil if
// they could not be read.
func (l *Leases) SetReported(all map[v1alpha1.LeaseOf]v1alpha1.Lease, at time.Time) {
	l.read = at
	for name := range l.waiting {
		l.dirty[name] = true
	}
	if all == nil {
		return
	}
	l.reported = all
	if len(l.written) > len(l.held) { // what this node wrote may not be needed any more
		l.host.Changed()
	}
}

// SetWritten takes over what an earlier agent wrote for this node.
func (l *Leases) SetWritten(all []v1alpha1.Lease) {
	for _, x := range all {
		l.written[v1alpha1.LeaseOf{Service: x.Service, Family: x.Family}] = x
	}
}

// Look has these leases decided about in the next Step.
func (l *Leases) Look(names ...string) {
	for _, name := range names {
		l.dirty[name] = true
	}
}

// LookAt has the leases of this node decided about whose address is addr.
func (l *Leases) LookAt(addr netip.Addr) {
	for name := range l.at[addr] {
		l.dirty[name] = true
	}
}

// LookAll has all leases decided about in the next Step.
func (l *Leases) LookAll() {
	for name := range l.members {
		l.dirty[name] = true
	}
	for name := range l.held {
		l.dirty[name] = true
	}
}

// Step decides about the leases that Look has named.
func (l *Leases) Step(now time.Time) {
	for len(l.dirty) > 0 {
		for name := range l.dirty {
			delete(l.dirty, name)
			l.decide(name, now)
		}
	}
}

// Tick ends claims that were kept long enough, and looks again at what had to wait.
func (l *Leases) Tick(now time.Time) {
	for name, p := range l.tombstones {
		if now.After(p.until) {
			delete(l.tombstones, name)
			l.host.Changed()
		}
	}
	for name := range l.postponed {
		l.dirty[name] = true
	}
	clear(l.postponed)
}

// Inherit takes over the leases of addresses that an earlier agent has left on this
// node; on says on which interface an address is, and with which epoch.
func (l *Leases) Inherit(on func(netip.Addr) (iface string, epoch uint64, ok bool), now time.Time) {
	for name := range l.members {
		last, err := lb.ParseAddr(l.last(name).Address)
		if err != nil {
			continue
		}
		have, epoch, ok := on(last)
		if !ok {
			continue
		}
		candidate := l.candidate(name)
		if iface, index := l.host.Interface(*candidate.Family, l.lastAddr(name), &candidate); iface == have {
			l.begin(name, iface, index, epoch, now)
		}
	}
}

// EndAll ends asking for all leases. They last on, for other nodes.
func (l *Leases) EndAll() {
	for _, h := range l.held {
		l.finish(h, false)
	}
}

// Close ends everything.
func (l *Leases) Close() {
	for _, h := range l.held {
		h.end()
	}
	l.cancel()
	l.running.Wait()
	for _, p := range l.ports {
		if p.port != nil {
			_ = p.port.Close()
		}
	}
}

func (l *Leases) memberNames(name string) (out []string) {
	for _, c := range l.members[name] {
		out = append(out, c.Request.Service.String())
	}
	return out
}
