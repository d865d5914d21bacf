package cloudscale

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"
)

// ForwardOptions say how packets are forwarded.
type ForwardOptions struct {
	// Card gets the addresses of load balancers. Without one they have to be
	// there, as those of 127.0.0.0/8 are.
	Card *Card
	// Second is how long the seconds of health monitors last; default one.
	Second time.Duration
	Log    *slog.Logger // default: nowhere
}

// Forwarder is what makes load balancers real: it listens at their addresses
// in the network namespace of the process, passes connections and datagrams on
// to the members of pools, and checks their health. The simulator then tells
// what the checks have found.
//
// Connections go on when their member is disabled or removed, and when their
// listener or pool is removed. They end with their load balancer.
type Forwarder struct {
	sim     *Simulator
	options ForwardOptions
	changed chan struct{}
	stop    context.CancelFunc
	work    sync.WaitGroup

	// Of the loop only.
	addresses []netip.Addr
	fronts    map[frontKey]*front
	lives     map[string]life // of load balancers
	pools     map[string]*backend
	probes    map[string]*probe // by member
}

// front is a port of a load balancer that is listened at.
type front struct {
	lb    string
	close func() // stops to listen
	set   func(frontConfig, *backend)
}

// life is that of a load balancer: it ends all its connections, also those
// that came by a port that it does not listen at any more.
type life struct {
	context.Context
	end context.CancelFunc
}

// Forward begins to forward, until Close.
func (s *Simulator) Forward(o ForwardOptions) *Forwarder {
	if o.Second == 0 {
		o.Second = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Forwarder{
		sim: s, options: o, changed: make(chan struct{}, 1), stop: stop,
		fronts: make(map[frontKey]*front), lives: make(map[string]life), pools: make(map[string]*backend), probes: make(map[string]*probe),
	}
	f.changed <- struct{}{}
	s.observe(func() {
		select {
		case f.changed <- struct{}{}:
		default: // it will look anyway
		}
	})
	f.work.Go(func() { f.run(ctx) })
	return f
}

// Close ends everything, and waits for it.
func (f *Forwarder) Close() {
	f.sim.unobserve()
	f.stop()
	f.work.Wait()
}

// retryListening is how soon a port that could not be had is tried again.
const retryListening = time.Second

func (f *Forwarder) run(ctx context.Context) {
	defer f.settle(ctx, plane{})
	again := time.NewTicker(retryListening)
	defer again.Stop()
	for {
		f.settle(ctx, f.sim.plane())
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-again.C:
		}
	}
}

// settle makes what runs the same as what is wanted.
func (f *Forwarder) settle(ctx context.Context, want plane) {
	f.settleAddresses(want.addresses)
	for id, c := range want.pools {
		if f.pools[id] == nil {
			f.pools[id] = newBackend()
		}
		f.pools[id].set(c)
	}
	for id, b := range f.pools {
		if _, wanted := want.pools[id]; !wanted {
			b.set(poolConfig{})
			delete(f.pools, id)
		}
	}
	f.settleProbes(ctx, want)
	f.settleFronts(ctx, want)
}

func (f *Forwarder) settleAddresses(want []netip.Addr) {
	if f.options.Card == nil {
		return
	}
	f.addresses = slices.DeleteFunc(f.addresses, func(a netip.Addr) bool {
		if slices.Contains(want, a) {
			return false
		}
		if err := f.options.Card.remove(a); err != nil {
			f.options.Log.Error("could not remove an address", "address", a, "error", err)
		}
		return true
	})
	for _, a := range want {
		if slices.Contains(f.addresses, a) {
			continue
		}
		if err := f.options.Card.add(a); err != nil {
			f.options.Log.Error("could not add an address", "address", a, "error", err)
			continue
		}
		f.addresses = append(f.addresses, a)
	}
}

func (f *Forwarder) settleFronts(ctx context.Context, want plane) {
	for key, fr := range f.fronts {
		if c, wanted := want.fronts[key]; wanted && c.lb == fr.lb {
			continue
		}
		fr.close()
		delete(f.fronts, key)
	}
	for lb, l := range f.lives {
		if !slices.Contains(want.lbs, lb) {
			l.end()
			delete(f.lives, lb)
		}
	}
	for _, lb := range want.lbs {
		if _, lives := f.lives[lb]; !lives {
			ctx, end := context.WithCancel(ctx)
			f.lives[lb] = life{ctx, end}
		}
	}
	for key, c := range want.fronts {
		if fr := f.fronts[key]; fr != nil {
			fr.set(c, f.pools[c.pool])
			continue
		}
		listen := f.listenTCP
		if key.udp {
			listen = f.listenUDP
		}
		fr, err := listen(f.lives[c.lb], key.address, c, f.pools[c.pool])
		if err != nil {
			f.options.Log.Error("could not listen", "address", key.address, "udp", key.udp, "error", err)
			continue // the next turn tries again
		}
		f.options.Log.Info("listening", "address", key.address, "udp", key.udp)
		f.fronts[key] = fr
	}
}

func (f *Forwarder) settleProbes(ctx context.Context, want plane) {
	wanted := make(map[string]probeConfig)
	for id, pool := range want.pools {
		for _, m := range pool.members {
			if pool.monitor != nil && m.enabled {
				wanted[m.uuid] = probeConfig{*pool.monitor, m.check, f.pools[id]}
			}
		}
	}
	for id, p := range f.probes {
		if c, is := wanted[id]; !is || !reflect.DeepEqual(c.monitor, p.config.monitor) || c.target != p.config.target {
			p.stop()
			delete(f.probes, id)
			if !is {
				p.config.pool.found(id, true) // without checks it is taken for good
				f.sim.report(id, "")
			}
		}
	}
	for id, c := range wanted {
		if f.probes[id] == nil {
			f.probes[id] = f.startProbe(ctx, id, c)
		}
	}
}
