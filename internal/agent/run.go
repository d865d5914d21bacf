package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/carrying"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/gossipkey"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// Options of an agent.
type Options struct {
	REST *rest.Config
	Log  *slog.Logger

	// Version of the program.
	Version  string
	NodeName string
	// Namespace of the Secret with the key of the gossip.
	Namespace string
	// GossipPort; 0 switches gossip off: the Nodes' conditions then say which nodes
	// are alive, which takes most of a minute.
	GossipPort uint16
	// ProxyHealthURL is asked whether the node forwards; empty means yes.
	ProxyHealthURL string
	// Sources say what is announced.
	Sources sources.Options
	// Announcer tells the network.
	Announcer Announcer
	// Routers tells routers; nil if none is to be told.
	Routers Routers
	// Observer, if not nil, reports in the format of another load balancer.
	Observer Observer
	// Excluded matches the names of interfaces on which nothing is announced unless
	// a pool names them; nil is for those that lead to pods or nowhere.
	Excluded *regexp.Regexp
	// IgnoreExcludeLabel: nodes labelled to be left out of load balancing are not.
	IgnoreExcludeLabel bool
	// KeepConnections is for how long established connections are kept after an address has
	// moved, unless its pool says; 0: they are not.
	KeepConnections time.Duration
	// ShutdownGrace is how long an agent that ends for good waits for connections of its node
	// to end.
	ShutdownGrace time.Duration
	// Registry of the agent's metrics.
	Registry prometheus.Registerer
	// Ready is called once the agent works, or waits to follow another one on
	// this node.
	Ready func()
	// Beat is called with every turn of the loop, at least four times a second.
	Beat func(time.Time)

	// Kernel, Tables and Group, if not nil, replace the node's: package agentsim runs
	// agents without nodes.
	Kernel Kernel
	Tables Tables
	Group  Group
}

// Run announces until ctx ends, and then hands over.
func Run(ctx context.Context, o Options) error {
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// A node that takes over a thousand addresses has as many events to write: those
	// that come next are not to wait for minutes.
	swift := rest.CopyConfig(o.REST)
	swift.QPS, swift.Burst = eventsPerSecond, 2*eventsPerSecond
	kube, err := kubernetes.NewForConfig(swift)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if err := apiretry.Await(ctx, o.REST, o.Log); err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	cached, err := newCache(o.REST, o.NodeName, o.Log)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	inbox := newInbox()
	if err := inbox.follow(ctx, cached, always); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the API server has no CRDs of %s: install Fairlead's CRDs (chart value crds.enabled): %w", v1alpha1.GroupVersion.Group, err)
		}
		return apiretry.IgnoreEnd(ctx, err)
	}
	running.Go(func() { _ = cached.Start(background) })
	reader := sources.New(o.Sources, cached)
	if err := reader.Follow(ctx, background, &running, inbox.sources()); err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	if !cached.WaitForCacheSync(ctx) {
		return nil // it was to end before anything was done
	}
	var self corev1.Node
	if err := cached.Get(ctx, types.NamespacedName{Name: o.NodeName}, &self); err != nil {
		return fmt.Errorf("read node %s: %w", o.NodeName, err)
	}
	// Everything is asked for before an earlier agent ends, whose fences do not wait
	// for the API server.
	scheme, err := sources.NewScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(o.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	known, err := meetAgents(ctx, direct, &self, o.Log)
	if err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	// Without gossip, the key is for the seat alone.
	var key []byte
	if o.Group == nil {
		if key, err = gossipkey.Get(ctx, kube, o.Namespace, o.Log); err != nil {
			return apiretry.IgnoreEnd(ctx, err)
		}
	}
	seat, err := o.seatTaker(key).take(ctx)
	if err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	if o.Routers != nil {
		o.Routers.Continue(seat.legacy.data, seat.legacy.fds)
	} else {
		seat.legacy.close()
	}
	a, err := open(background, o, parts{cluster: cached, sources: reader, reporter: newReporter(o.NodeName, kube, direct, o.Log, o.Observer)})
	if err != nil {
		seat.leave()
		return apiretry.IgnoreEnd(ctx, err)
	}
	defer a.running.Wait()
	defer cancel()
	defer seat.leave() // first: a successor has to renew the fences in time
	defer a.close()
	a.inbox, a.known, a.hasSuccessor = inbox, known, seat.hasSuccessor
	reporting, err := a.start(ctx, o, direct, &self, key)
	if err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	o.Ready()
	a.loop(ctx)
	if !a.retired && a.failure == nil {
		a.handOver(seat)
	}
	a.close()
	if a.retired {
		reporting() // what is being written now may take longer than we have
		a.farewell()
	}
	return a.failure
}

// handOver hands the sessions with routers to the next agent on this node, and the seat with them:
// until it has both, nobody sends BFD packets, and routers wait for these for a fraction of a
// second. The kernel keeps what else there is, so that closing it can wait.
func (a *agent) handOver(s *seat) {
	ctx, cancel := context.WithTimeout(a.background, passTime)
	defer cancel()
	data, fds := a.routers.Freeze(ctx)
	if len(data) > 0 {
		if err := s.pass(data, fds); err != nil {
			a.log.Warn("BGP sessions were not handed over to the next agent; it connects again", "error", err)
		}
	}
	s.leave()
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// seatTaker looks for this node's seat.
func (o *Options) seatTaker(key []byte) *seatTaker {
	unproven := prometheus.NewCounter(unprovenOpts)
	o.Registry.MustRegister(unproven)
	var mu sync.Mutex
	var logged time.Time
	return &seatTaker{
		key: newSeatKey(key, o.NodeName), patience: unprovenPatience,
		waits: func() {
			o.Log.Info("another agent is active on this node; waiting for it to stop")
			o.Ready()
		},
		unproven: func(why string) {
			unproven.Inc()
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); now.Sub(logged) >= unprovenLogPause {
				logged = now
				o.Log.Warn("ignoring a process on this node that does not prove to be an agent", "why", why)
			}
		},
	}
}

// unprovenLogPause: anybody on the node can connect to the seat, as often as they like.
const unprovenLogPause = time.Minute

// open opens the node's kernel.
func open(background context.Context, o Options, p parts) (*agent, error) {
	p.tables, p.kernel = o.Tables, o.Kernel
	if p.tables == nil {
		t, err := nft.Open(o.Log)
		if err != nil {
			return nil, fmt.Errorf("open nftables: %w", err)
		}
		p.tables, p.forwards, p.removeStrays = t, nft.Forwards, conntrack.RemoveStrays
	}
	if p.kernel == nil {
		kernel, err := link.Watch(background)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("follow interfaces: %w", err), p.tables.Close())
		}
		p.kernel = kernel
	}
	if o.Tables == nil {
		carrier, err := nft.OpenCarrier()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open nftables: %w", err), p.tables.Close())
		}
		p.carrying = carrying.New(carrying.Options{Log: o.Log, Carrier: carrier, Connections: carrying.Kernel{}, LAN: carrying.NewLAN(o.Log)})
	}
	p.node, p.version, p.log, p.registry, p.excluded = o.NodeName, o.Version, o.Log, o.Registry, o.Excluded
	p.announcer, p.routers, p.observer = o.Announcer, o.Routers, o.Observer
	p.keep, p.grace = o.KeepConnections, o.ShutdownGrace
	a := newAgent(background, p)
	a.gossipPort, a.ignoreExcludeLabel, a.beat = o.GossipPort, o.IgnoreExcludeLabel, o.Beat
	return a, nil
}

// start takes over what an earlier agent has left, and starts everything that runs
// beside the loop. What it returns ends the reports.
func (a *agent) start(ctx context.Context, o Options, direct client.Client, self *corev1.Node, key []byte) (endReports func(), err error) {
	a.inherit(ctx, time.Now())
	reporting, endReports := context.WithCancel(a.background)
	a.running.Go(func() { write.Paced(reporting, a.log, "report", a.reporter.arrived, a.reporter.pass) })
	a.running.Go(func() { a.observer.Run(reporting) })
	if a.sources.Leases() {
		a.followReports(direct)
	}
	a.running.Go(func() {
		a.known.search(a.background, func(ctx context.Context) ([]string, error) { return listAgents(ctx, direct) }, func() { write.Wake(a.poke) })
	})
	a.proxy.url = o.ProxyHealthURL
	a.proxy.begin(ctx)
	a.running.Go(func() { a.proxy.watch(a.background) })
	a.around.read() // what is known is in the first report
	a.running.Go(func() { a.around.watch(a.background) })
	if a.api, err = newAPIHealth(o.REST, a.poke); err != nil {
		return endReports, fmt.Errorf("make client: %w", err)
	}
	a.running.Go(func() { a.api.watch(a.background) })
	a.begin(ctx, time.Now())
	if err := a.join(ctx, o, self, key); err != nil {
		return endReports, err
	}
	a.runCarrying()
	a.started, a.allDirty, a.patience = true, true, time.Now().Add(peersPatience)
	return endReports, nil
}

// begin reads everything once: what an earlier agent had is known, and claimed,
// before the others are met.
func (a *agent) begin(ctx context.Context, now time.Time) {
	a.absorb(a.inbox.take())
	var apiServer corev1.Service
	if err := a.cluster.Get(ctx, types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &apiServer); err == nil {
		a.leases.SetCluster(apiServer.UID) // there is one in each cluster
	}
	a.leases.Inherit(func(addr netip.Addr) (string, uint64, bool) {
		h := a.held[addr]
		if h == nil || len(h.ifaces) == 0 {
			return "", 0, false
		}
		return h.ifaces[0], h.epoch, true
	}, now)
}

// join starts the gossip, and keeps looking for agents that it does not know.
func (a *agent) join(ctx context.Context, o Options, self *corev1.Node, key []byte) error {
	if o.GossipPort == 0 {
		a.log.Warn("gossip is disabled: node failures are detected from Node conditions, which takes up to a minute")
		return nil
	}
	a.group = o.Group
	addr, ok := nodeAddress(self)
	if !ok {
		return fmt.Errorf("node %s has no address in its status", self.Name)
	}
	for a.group == nil {
		group, err := member.Start(member.Config{Name: a.node, Bind: netip.AddrPortFrom(addr, o.GossipPort), Key: key,
			Meta: metaOf(a.links, &a.scope, a.proxy.state(), false), Log: a.log})
		if err == nil {
			a.group = group
			break
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		a.renew()
		select { // our predecessor is ending
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	a.allClaimsDirty = true
	a.publishClaims()
	a.running.Go(func() { a.peers.join(a.background, a.group) })
	return nil
}
