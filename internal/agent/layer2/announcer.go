package layer2

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/link"
	"fairlead.io/internal/wire"
)

// Options of an Announcer.
type Options struct {
	Log *slog.Logger
	// Refresh is how often addresses are announced again; 0 is never.
	Refresh time.Duration
	// Sent is called for every frame, from any goroutine; nil is fine.
	Sent func(netip.Addr)
	// Registry of the announcer's metrics.
	Registry prometheus.Registerer
}

var framesOpts = prometheus.CounterOpts{Name: "fairlead_agent_frames_sent_total",
	Help: "Gratuitous ARP and unsolicited neighbour advertisement frames sent."}

// Announcer announces addresses on the interfaces that it follows. Only News may be
// used by another goroutine than all other methods.
type Announcer struct {
	o       Options
	frames  prometheus.Counter
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	news    chan agent.News
	ports   map[string]*port
	others  []netip.Addr // that are listened for, besides those that are owned
}

// port is an interface as the wire sees it.
type port struct {
	wire      *wire.Port
	announcer *wire.Announcer
	index     int
	mac       string
	up        bool
	stop      func()
	owned     map[netip.Addr]bool
	changed   bool // owned, since the last Commit
	// allowed is until when frames may be sent, by the monotonic clock.
	allowed atomic.Pointer[time.Time]
}

// New returns an announcer that follows no interface yet. It ends when it is closed,
// not with ctx: an agent that is told to end hands its addresses over first.
func New(ctx context.Context, o Options) *Announcer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	frames := prometheus.NewCounter(framesOpts)
	o.Registry.MustRegister(frames)
	return &Announcer{o: o, frames: frames, ctx: ctx, cancel: cancel, news: make(chan agent.News), ports: map[string]*port{}}
}

// Protocol is the name by which users know it.
func (*Announcer) Protocol() string { return "layer2" }

// News is what was heard.
func (a *Announcer) News() <-chan agent.News { return a.news }

// Follow announces on these interfaces from now on. One that is new, or was
// replaced under its name, is opened; after a link was down or got another MAC,
// everything is announced on it again.
func (a *Announcer) Follow(links []link.Link) {
	seen := map[string]bool{}
	for i := range links {
		l := &links[i]
		if l.Loopback || l.Slave || len(l.MAC) != 6 {
			continue
		}
		seen[l.Name] = true
		have := a.ports[l.Name]
		if have != nil && have.index != l.Index {
			a.close(l.Name)
			have = nil
		}
		if have == nil {
			have = a.open(l.Name, l.Index)
		} else if l.Up && (!have.up || have.mac != l.MAC.String()) {
			have.announcer.Again()
		}
		if have != nil {
			have.up, have.mac = l.Up, l.MAC.String()
		}
	}
	for name := range a.ports {
		if !seen[name] {
			a.close(name)
		}
	}
}

func (a *Announcer) open(name string, index int) *port {
	w, err := wire.Open(name)
	if err != nil {
		a.o.Log.Warn("interface not opened", "interface", name, "error", err)
		return nil
	}
	ctx, cancel := context.WithCancel(a.ctx)
	p := &port{wire: w, index: index, owned: map[netip.Addr]bool{}}
	send := func(addr netip.Addr, form wire.Form) error {
		a.frames.Inc()
		if a.o.Sent != nil {
			a.o.Sent(addr)
		}
		return w.Send(addr, form)
	}
	p.announcer = wire.NewAnnouncer(send, wire.Pace{Refresh: a.o.Refresh,
		Allowed: func() bool {
			until := p.allowed.Load()
			return until != nil && time.Now().Before(*until)
		}})
	a.running.Go(func() { p.announcer.Run(ctx) })
	a.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s, ok := <-w.Heard():
				if !ok {
					return
				}
				a.publish(ctx, agent.News{Addr: s.Addr, MAC: s.MAC, Interface: name, Asks: s.Asks})
			}
		}
	})
	p.stop = func() {
		cancel()
		_ = w.Close()
	}
	a.ports[name] = p
	return p
}

// publish hands over news, unless ctx ends.
func (a *Announcer) publish(ctx context.Context, n agent.News) {
	select {
	case a.news <- n:
	case <-ctx.Done():
	}
}

func (a *Announcer) close(name string) {
	a.ports[name].stop()
	delete(a.ports, name)
}

// Own announces an address on interfaces.
func (a *Announcer) Own(addr netip.Addr, interfaces []string) {
	a.own(addr, interfaces, (*wire.Announcer).Own)
}

// Adopt owns an address that an earlier agent has announced.
func (a *Announcer) Adopt(addr netip.Addr, interfaces []string) {
	a.own(addr, interfaces, (*wire.Announcer).Adopt)
}

func (a *Announcer) own(addr netip.Addr, interfaces []string, how func(*wire.Announcer, ...netip.Addr)) {
	for _, name := range interfaces {
		if p := a.ports[name]; p != nil {
			how(p.announcer, addr)
			p.owned[addr], p.changed = true, true
		}
	}
}

// Disown ends the announcements of an address on an interface.
func (a *Announcer) Disown(addr netip.Addr, name string) {
	if p := a.ports[name]; p != nil {
		p.announcer.Disown(addr)
		delete(p.owned, addr)
		p.changed = true
	}
}

// Commit follows calls of Own, Adopt and Disown: it says once for all of them who else is
// listened for.
func (a *Announcer) Commit() {
	for _, p := range a.ports {
		if p.changed {
			p.changed = false
			p.wire.Watch(slices.AppendSeq(slices.Clone(a.others), maps.Keys(p.owned)))
		}
	}
}

// Listen has News tell of frames about these addresses, too.
func (a *Announcer) Listen(addrs []netip.Addr) {
	a.others = addrs
	for _, p := range a.ports {
		p.changed = true
	}
	a.Commit()
}

// Remind announces all addresses once more.
func (a *Announcer) Remind() {
	for _, p := range a.ports {
		p.announcer.Remind()
	}
}

// Allow says until when frames may be sent on an interface: packet sockets bypass
// the fence, so each frame is checked against this.
func (a *Announcer) Allow(name string, until time.Time) {
	if p := a.ports[name]; p != nil {
		p.allowed.Store(&until)
	}
}

// Defend answers another host that uses an address of ours; false means that it
// did so a moment ago.
func (a *Announcer) Defend(addr netip.Addr, name string) bool {
	p := a.ports[name]
	return p != nil && p.announcer.Defend(addr)
}

// Probe asks on interfaces whether a host has an address. The answer is in News.
// Hosts that are ours do not count.
func (a *Announcer) Probe(addr netip.Addr, interfaces []string, ours func(net.HardwareAddr) bool) {
	ports := map[string]*wire.Port{}
	for _, name := range interfaces {
		if p := a.ports[name]; p != nil {
			ports[name] = p.wire
		}
	}
	a.running.Go(func() {
		result := agent.News{Addr: addr, Probe: true}
		for _, name := range interfaces {
			p := ports[name]
			if p == nil {
				continue
			}
			host, err := p.Probe(a.ctx, addr, ours)
			if err != nil {
				a.o.Log.Warn("address not probed", "address", addr, "interface", name, "error", err)
			}
			if host != nil {
				result.MAC, result.Interface = host, name
				break
			}
		}
		a.publish(a.ctx, result)
	})
}

// Survey asks on an interface who has addresses, and whether witnesses are there. The
// answer is in News.
func (a *Announcer) Survey(iface string, addrs, witnesses []agent.Question) {
	var questions []wire.Question
	result := agent.News{Survey: true, Interface: iface}
	for _, q := range addrs {
		questions = append(questions, wire.Question(q))
		result.Asked = append(result.Asked, q.Addr)
	}
	for _, q := range witnesses {
		questions = append(questions, wire.Question(q))
	}
	p := a.ports[iface]
	a.running.Go(func() {
		if p != nil && len(questions) > 0 {
			answers, err := p.wire.Survey(a.ctx, questions)
			if err != nil && a.ctx.Err() == nil {
				a.o.Log.Warn("the LAN was not asked", "interface", iface, "error", err)
			}
			result.Answers = answers
		}
		a.publish(a.ctx, result)
	})
}

// Close ends all announcements.
func (a *Announcer) Close() {
	for name := range a.ports {
		a.close(name)
	}
	a.cancel()
	a.running.Wait()
}
