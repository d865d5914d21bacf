package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/compat"
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

	// Version of the program, for the metrics.
	Version string
	// Workers is how many Services are written at the same time.
	Workers int
	// HealthAddress and MetricsAddress to listen on; metrics are served in plain
	// on a loopback address, and with TLS to authorised clients on others; no
	// address for metrics means none.
	HealthAddress  string
	MetricsAddress string
	// Namespace of the Secret by which the nodes' agents recognise each other; it is
	// made if GossipKey says that there are agents.
	Namespace string
	GossipKey bool
	// LeaderNamespace is where the Lease for leader election is; empty means that
	// this controller is alone.
	LeaderNamespace string
	// LeaderLease is the Lease's name; empty means our own.
	LeaderLease string

	// Dialects in which pools and Services are written, our own first.
	Dialects []compat.Dialect
	// Schemes add the kinds of dialects.
	Schemes []func(*runtime.Scheme) error
	// Backends by the names that classes use. A class whose backend is not there is
	// not served.
	Backends map[config.Backend]Backend
	// Reporters say on objects of dialects how they are used.
	Reporters []func(Tools) Reporter
	// Reasons is everything that can be reported to users, for the metrics.
	Reasons lb.Table
	// Parts run beside the controller, in the leader alone if they say so.
	Parts []manager.Runnable
	// Metrics are served beside the controller's.
	Metrics []prometheus.Gatherer

	// rewound receives a value when caches notice that etcd was restored.
	rewound chan struct{}
}

func (o *Options) noteRewind() {
	select {
	case o.rewound <- struct{}{}:
	default: // it is known already
	}
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

	// shutdownGrace is for writes under way when the process is asked to stop.
	shutdownGrace = 3 * time.Second
)

// Tools are what a Reporter works with.
type Tools struct {
	Cache  client.Reader
	Client client.Client
	Told   *Told
	Log    *slog.Logger
	// Reading of a dialect, as it was read last.
	Reading func(lb.Dialect) compat.Reading
	// Has says whether a kind can be read.
	Has func(schema.GroupVersionKind) bool
	// Routing is what agents report about routers.
	Routing func() Routing
	// Loaded says whether all kinds have been listed.
	Loaded func() bool
	Usage  func() []ipam.PoolUsage
}

// Counter is a Reporter that counts reconciles.
type Counter interface{ Count(err error) }

// Run serves until ctx ends. Losing the leadership is an error: the process must
// end then, and with it everything that may still write.
func Run(ctx context.Context, o Options) error {
	// The API server compresses lists and every event of a watch, which costs both
	// sides more time than it saves. Its own controllers do without as well.
	o.REST = rest.CopyConfig(o.REST)
	o.REST.DisableCompression = true
	o.rewound = make(chan struct{}, 1)
	c := newClasses(o)
	kinds, err := apikinds.New(o.REST, o.Log, optionalKinds(c)...)
	if err != nil {
		return err
	}
	mgr, err := awaitManager(ctx, o, c, kinds)
	if err != nil {
		return apiretry.IgnoreEnd(ctx, err)
	}
	kinds.Cache = mgr.GetCache()
	writer, err := newWriter(o.REST, c.workers())
	if err != nil {
		return err
	}
	for _, step := range newParts(ctx, o, c, kinds, mgr, writer).steps() {
		if err := step(); err != nil {
			return apiretry.IgnoreEnd(ctx, err)
		}
	}
	for _, part := range o.Parts {
		if err := mgr.Add(part); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// awaitManager is newManager, which asks the API server about kinds, for one that
// may be away.
func awaitManager(ctx context.Context, o Options, c *classes, kinds *apikinds.Set) (manager.Manager, error) {
	for {
		mgr, err := newManager(o, c, kinds)
		if _, away := errors.AsType[*url.Error](err); !away {
			return mgr, err
		}
		o.Log.Warn("cannot reach the API server; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryAPIServer):
		}
	}
}

func newManager(o Options, c *classes, kinds *apikinds.Set) (manager.Manager, error) {
	scheme, err := newScheme(o.Schemes...)
	if err != nil {
		return nil, err
	}
	grace, duration, renew, retry := shutdownGrace, leaseDuration, leaseRenew, leaseRetry
	mgr, err := manager.New(o.REST, manager.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(o.Log.Handler()),
		Cache:                         cacheOptions(c),
		NewCache:                      newCache(o.Log, c, kinds, o.noteRewind),
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
	if err == nil { // New asks only about kinds that cacheOptions names
		_, err = mgr.GetRESTMapper().RESTMapping(schema.GroupKind{Kind: "Service"}, "v1")
	}
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return mgr, nil
}

// ensureGossipKey creates the Secret by which agents recognise each other, unless it
// exists. The controller goes on if it cannot: addresses are still assigned, and the
// agents log what they wait for.
func ensureGossipKey(client kubernetes.Interface, o Options) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := gossipkey.Ensure(ctx, client, o.Namespace)
			if err == nil {
				return nil
			}
			o.Log.Warn("gossip key for the agents not created; trying again", "namespace", o.Namespace, "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(gossipKeyRetry):
			}
		}
	}
}
