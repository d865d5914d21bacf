// Package projects follows the objects of kube-dc and kube-ovn in the API server, and
// carries out what package eip decides about them. Which Services there are and what they
// have in OVN's database it is told; it decides nothing by itself.
package projects

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/routes"
)

// Options of Projects.
type Options struct {
	REST *rest.Config
	Log  *slog.Logger
	// Writes says that Services may have EIps. Else nothing is written: objects only say
	// which router a namespace has.
	Writes bool
	// Serves says that EIps are served here, not by kube-dc's manager.
	Serves bool
	// DryRun says that nothing is written.
	DryRun bool
	// Patience is how long others may take; 0: eip.Patience.
	Patience time.Duration
	// Claim is what a Service asks for; ok is false if the Service is not of the
	// backend's classes. It depends on the Service alone.
	Claim func(*lb.Service) (c eip.Claim, ok bool)
	// Rows are what load balancers of the cluster have in the database. After a change,
	// Touch is to be called.
	Rows eip.Rows
	// Served is what a Service, which may be gone, has there.
	Served func(types.NamespacedName) ([]routes.Served, error)
}

// Projects are those of one cluster.
type Projects struct {
	o      Options
	cache  cache.Cache
	client client.Client
	kinds  *apikinds.Set
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName] // EIps
	wake   func(...types.NamespacedName)
	looked atomic.Bool // all that there was has been read
	// companions are Services whose companions are to be looked at, and companionsKnown say
	// whether all of these have been read.
	companions      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	companionsKnown []func() bool
	created         map[types.NamespacedName]created // by p.mu

	mu   sync.Mutex
	book *eip.Book
	own  ownWrites
	// bound is what Services had when they were last looked at.
	bound map[types.NamespacedName]eip.Binding
	gone  departed

	routing locks // by Vpc
}

// New returns the projects of a cluster. It does not ask the API server, which may be away;
// Run does, and fills the cache.
func New(o Options) (*Projects, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	mapper := newMapper()
	fast := rest.CopyConfig(o.REST)
	fast.QPS = -1 // the API server limits requests
	writer, err := client.New(fast, client.Options{Scheme: s, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create client for projects: %w", err)
	}
	reader, err := cache.New(apiretry.Config(o.REST, o.Log), cache.Options{Scheme: s, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(), ByObject: companionCache()})
	if err != nil {
		return nil, fmt.Errorf("create cache of projects: %w", err)
	}
	set, err := apikinds.New(o.REST, o.Log, kinds...)
	if err != nil {
		return nil, err
	}
	set.Cache = reader
	book := eip.NewBook(o.Serves)
	book.Patience = cmp.Or(o.Patience, book.Patience)
	return &Projects{o: o, cache: reader, client: writer, kinds: set, queue: newQueue(), companions: newQueue(),
		book: book, own: ownWrites{}, bound: map[types.NamespacedName]eip.Binding{}, created: map[types.NamespacedName]created{}}, nil
}

func newQueue() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, 30*time.Second))
}

// Run follows all objects until ctx ends, serves EIps, and wakes Services for which
// something has changed; no names are all of them. It is called once.
func (p *Projects) Run(ctx context.Context, wake func(...types.NamespacedName)) error {
	p.wake = wake
	context.AfterFunc(ctx, p.queue.ShutDown)
	context.AfterFunc(ctx, p.companions.ShutDown)
	ended := make(chan error, 1)
	go func() { ended <- p.cache.Start(ctx) }()
	err := p.follow(ctx)
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	if err != nil {
		return err
	}
	p.looked.Store(true)
	p.everything() // what came before could not be judged
	go func() {
		if err := p.kinds.Start(ctx); err != nil {
			p.o.Log.Error("kinds are not looked for any more", "error", err)
		}
	}()
	if p.o.Writes {
		for range workers {
			go p.work(ctx)
		}
	}
	if p.o.Writes && !p.o.DryRun {
		if err := p.followCompanions(ctx); err != nil {
			return err
		}
		for range companionWorkers {
			go p.workCompanions(ctx)
		}
	}
	return <-ended
}
