package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"fairlead.io/internal/config"
	"fairlead.io/internal/gossipkey"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// Options of a controller.
type Options struct {
	REST   *rest.Config
	Config *config.Configuration
	Log    *slog.Logger

	// Workers is how many Services are written at the same time.
	Workers int
	// HealthAddress and MetricsAddress to listen on; metrics are served in plain
	// on a loopback address, and with TLS to authorised clients on others; no
	// address for metrics means none.
	HealthAddress  string
	MetricsAddress string
	// Namespace of the Secret by which the nodes' agents recognise each other.
	Namespace string
	// LeaderNamespace is where the Lease for leader election is; empty means that
	// this controller is alone.
	LeaderNamespace string
	// MetalLBNamespace is where objects of MetalLB's kinds count.
	MetalLBNamespace string
	// KubeVIPMap is the ConfigMap of kube-vip's cloud provider.
	KubeVIPMap config.KubeVIPMap
	// Pod of the controller, if it is in MetalLB's namespace: what the controller
	// writes there about itself goes with it.
	Pod *metav1.OwnerReference
	// LeaderLease is the Lease's name; empty means our own.
	LeaderLease string

	// Cloud, if not nil, has the load balancers of classes with its backend.
	Cloud *Cloud
	// Reasons is everything that users can be told, for the metrics.
	Reasons lb.Table
	// Parts run beside the controller, in the leader alone if they say so.
	Parts []manager.Runnable
	// Metrics are served beside the controller's.
	Metrics []prometheus.Gatherer
}

// LeaderLease is the name of the Lease by which replicas elect their leader.
const LeaderLease = "fairlead-controller"

// A leader that dies without a word is followed within leaseDuration and one
// leaseRetry; one that ends in order gives the lease back at once.
const (
	leaseDuration = 6 * time.Second
	leaseRenew    = 4 * time.Second
	leaseRetry    = time.Second

	gossipKeyRetry = 10 * time.Second

	// shutdownGrace is for writes under way when the process is told to end.
	shutdownGrace = 3 * time.Second
)

// Run serves until ctx ends. Losing the leadership is an error: the process must
// end then, and with it everything that may still write.
func Run(ctx context.Context, o Options) error {
	// The API server compresses lists and every event of a watch, which costs both
	// sides more time than it saves. Its own controllers do without as well.
	o.REST = rest.CopyConfig(o.REST)
	o.REST.DisableCompression = true
	wakes := &waker{}
	l := newLedger(wakes.wake)
	m := newKubevipMap(o)
	kinds, err := newOptional(o.REST, o.Log, optionalKinds(o.Config, m)...)
	if err != nil {
		return err
	}
	f := newForeign(o, kinds, l)
	mgr, err := awaitManager(ctx, o, kinds, m)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	kinds.cache = mgr.GetCache()
	writer, err := newWriter(o.REST)
	if err != nil {
		return err
	}
	waited := prometheus.NewHistogram(timeToAddressOpts)
	svc := &services{cache: mgr.GetCache(), client: writer, config: o.Config, kinds: kinds, kubevip: m, ledger: l, log: o.Log, waited: waited}
	var cloud *cloudServices
	if o.Cloud != nil {
		cloud = &cloudServices{Cloud: *o.Cloud, cache: mgr.GetCache(), client: writer, config: o.Config, log: o.Log}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{l, cloud, o.Reasons}, waited)
	svc.events = newEvents(writer, o.Log, func() bool { return svc.running.Load() > 0 || wakes.waiting() > 0 })
	l.contested = func(contest ipam.Contest) { svc.tellContest(ctx, contest) }
	sources := poolSources{cache: mgr.GetCache(), config: o.Config, kinds: kinds, foreign: f, kubevip: m}
	imports := &importer{poolSources: sources, cache: mgr.GetCache(), client: writer, ledger: l, log: o.Log}
	if m != nil {
		m.kinds, m.events = kinds, svc.events
		m.changed = func() { wakes.wake(servicesUsing(ctx, mgr.GetCache(), o.Config, lb.KubeVIP)) }
	}
	if hearsAgents(o.Config) {
		svc.agents = &agents{cache: mgr.GetCache(), kinds: kinds, wake: wakes.wake}
		imports.agents = svc.agents
	}
	// What was said of pools that could not be read is not so any more.
	woken := follower{came: func() { wakes.wake(servicesUsing(ctx, mgr.GetCache(), o.Config, lb.Native)) }, changed: func(_, _ client.Object) {}}
	if err := kinds.follow(kindNativePool, woken); err != nil {
		return err
	}
	status := &poolStatus{cache: mgr.GetCache(), client: mgr.GetClient(), ledger: l, told: &told{events: svc.events}, kubevip: m, log: o.Log}
	if f != nil {
		status.metallb = newMetalLBStatus(f, status)
		registry.MustRegister(f.updates, f.failures, metallbCollector{ledger: l, stale: status.metallb.stale.Load,
			loaded: func() bool { return synced(ctx, mgr.GetCache(), o.Config, kinds) }})
	}

	owners := newOwners()
	l.alloc.SetOwner(owners.of)
	steps := []func() error{
		func() error { return owners.follow(ctx, mgr.GetCache()) },
		func() error { return fillCaches(ctx, mgr.GetCache(), o.Config, kinds, o.Log) },
		func() error { return mgr.Add(manager.RunnableFunc(svc.events.Start)) },
		func() error { return serveHealth(mgr, o, kinds) },
		func() error { return serveMetrics(mgr, o, writer, registry) },
	}
	if o.Config.FromPools() {
		steps = append(steps,
			func() error { return watchServices(mgr, svc, o.Workers, wakes, imports) },
			func() error { return mgr.Add(kinds) },
			func() error { return watchPools(mgr, sources, l, svc.agents) },
			func() error { return watchNodes(mgr, l) },
			func() error { return watchAgents(mgr, svc.agents, kinds) },
			func() error { return mgr.Add(manager.RunnableFunc(status.Start)) },
		)
	}
	if slices.Contains(o.Config.Backends(), config.Announce) {
		steps = append(steps, func() error { return mgr.Add(manager.RunnableFunc(ensureGossipKey(writer, o))) })
	}
	if cloud != nil {
		cloud.events = svc.events
		steps = append(steps, func() error { return watchCloud(mgr, cloud) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return unlessEnded(ctx, err)
		}
	}
	for _, part := range o.Parts {
		if err := mgr.Add(part); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// unlessEnded returns err unless ctx has ended: who is told to end before having
// begun has not failed.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// awaitManager is newManager, which asks the API server about kinds, for one that
// may be away.
func awaitManager(ctx context.Context, o Options, kinds *optional, m *kubevipMap) (manager.Manager, error) {
	for {
		mgr, err := newManager(o, kinds, m)
		if _, away := errors.AsType[*url.Error](err); !away {
			return mgr, err
		}
		o.Log.Warn("the API server cannot be asked; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryAPIServer):
		}
	}
}

func newManager(o Options, kinds *optional, m *kubevipMap) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	grace, duration, renew, retry := shutdownGrace, leaseDuration, leaseRenew, leaseRetry
	mgr, err := manager.New(o.REST, manager.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(o.Log.Handler()),
		Cache:                         cacheOptions(o.Config, m),
		NewCache:                      newCache(o.Log, o.Config, kinds),
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see serve.go
		LeaderElection:                o.LeaderNamespace != "",
		LeaderElectionID:              cmp.Or(o.LeaderLease, LeaderLease),
		LeaderElectionNamespace:       o.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &duration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       &grace,
	})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return mgr, nil
}

// newWriter returns the client for Services and events. It is not limited on
// our side: the API server's own fairness does that.
func newWriter(base *rest.Config) (kubernetes.Interface, error) {
	c := rest.CopyConfig(base)
	c.QPS = -1
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	writer, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return writer, nil
}

// ensureGossipKey makes the Secret by which agents recognise each other, unless
// it is there. That it cannot is no reason to stop: addresses are given all the
// same, and the agents say what they wait for.
func ensureGossipKey(client kubernetes.Interface, o Options) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := gossipkey.Ensure(ctx, client, o.Namespace)
			if err == nil {
				return nil
			}
			o.Log.Warn("key of the agents' gossip not made; trying again", "namespace", o.Namespace, "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(gossipKeyRetry):
			}
		}
	}
}
