// Package projects follows the objects of kube-dc and kube-ovn in the API server, and
// carries out what package eip decides about them. Which Services there are and what they
// have in OVN's database it is told; it decides nothing by itself.
package projects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubedc"
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

// The kinds that are followed. Without the first ones nothing can be decided.
var (
	kindEIp     = api.GroupVersion.WithKind("EIp")
	kindFIp     = api.GroupVersion.WithKind("FIp")
	kindProject = api.GroupVersion.WithKind("Project")
	kindOvnEip  = kubeovn.GroupVersion.WithKind("OvnEip")
	kindSubnet  = kubeovn.GroupVersion.WithKind("Subnet")
	kindVpc     = kubeovn.GroupVersion.WithKind("Vpc")
	kindRule    = kubeovn.GroupVersion.WithKind("OvnDnatRule")

	// optional are kinds that may be missing.
	optional = []schema.GroupVersionKind{kindProject, kindRule}

	kinds = []compat.Kind{
		{GroupVersionKind: kindEIp, Object: &api.EIp{}, List: func() runtime.Object { return &api.EIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindFIp, Object: &api.FIp{}, List: func() runtime.Object { return &api.FIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindOvnEip, Object: &kubeovn.OvnEip{}, Resource: "ovn-eips", List: func() runtime.Object { return &kubeovn.OvnEipList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindSubnet, Object: &kubeovn.Subnet{}, List: func() runtime.Object { return &kubeovn.SubnetList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindVpc, Object: &kubeovn.Vpc{}, List: func() runtime.Object { return &kubeovn.VpcList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindProject, Object: &api.Project{}, List: func() runtime.Object { return &api.ProjectList{} }, Without: "only Vpcs say which namespaces are projects"},
		{GroupVersionKind: kindRule, Object: &kubeovn.OvnDnatRule{}, Resource: "ovn-dnat-rules", List: func() runtime.Object { return &kubeovn.OvnDnatRuleList{} }, Without: "ports that they have are only seen in OVN's database"},
	}
)

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

// New returns the projects of a cluster. Run fills its cache.
func New(o Options) (*Projects, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	fast := rest.CopyConfig(o.REST)
	fast.QPS = -1 // the API server limits requests
	writer, err := client.New(fast, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("create client for projects: %w", err)
	}
	reader, err := cache.New(apiretry.Config(o.REST, o.Log), cache.Options{Scheme: s, DefaultTransform: cache.TransformStripManagedFields(), ByObject: companionCache()})
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

// workers is how many EIps are worked on at the same time.
const workers = 4

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

// Why objects cannot be read.
var (
	// ErrUnread says that they have not been read yet.
	ErrUnread = errors.New("kube-dc's and kube-ovn's objects have not been read yet")
	// ErrLacking says that the API server does not have some of them, or does not let us
	// read them.
	ErrLacking = errors.New("not all of kube-dc's and kube-ovn's objects can be read")
)

// readable says why not all objects can be read; nil if they can.
func (p *Projects) readable() error {
	if !p.looked.Load() {
		return ErrUnread
	}
	for _, k := range kinds {
		if why, lacks := p.kinds.Lacks(k.GroupVersionKind); lacks && !slices.Contains(optional, k.GroupVersionKind) {
			return fmt.Errorf("%w: %s", ErrLacking, why)
		}
		for _, told := range p.kinds.Told(k.GroupVersionKind) {
			if !toolscache.IsDone(told) {
				return ErrUnread
			}
		}
	}
	return nil
}

// View returns what is so for a Service, which may be newer than the one that was read
// here. It fails while not everything can be read: then everything stays as it is. From
// then on, the Service is woken when it has something else.
func (p *Projects) View(s *lb.Service) (*eip.View, error) {
	if err := p.readable(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see(s)
	v := p.book.LookAtService(s.Key, p.o.Rows, time.Now())
	if !p.gone.has(s.UID) {
		p.bound[s.Key] = v.Service(s.UID)
	}
	return v, nil
}

// see puts a Service into the book, in place of an older version of it. The one that looks
// may not know yet that it is gone.
func (p *Projects) see(s *lb.Service) {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name, UID: s.UID, ResourceVersion: s.Version}}
	have := &corev1.Service{}
	if c := p.book.Claim(s.Key); c != nil {
		have.ResourceVersion = c.Service.Version
	}
	if c := p.claimOf(s); c != nil && !p.gone.has(s.UID) && !older(o, have) && s.Version != have.ResourceVersion {
		value := *s
		c.Service = &value
		p.book.Service(s.Key, s.UID, c)
		p.own.saw(o, time.Now())
	}
}

// claimOf is what a Service asks for; nil if it is none of ours.
func (p *Projects) claimOf(s *lb.Service) *eip.Claim {
	if c, ok := p.o.Claim(s); ok && !s.Deleting {
		return &c
	}
	return nil
}

// Locate returns where the Services of a namespace are served, as kubedc.Locate does. None
// of the kinds has to be there.
func (p *Projects) Locate(namespace string) (place kubedc.Place, ok bool, problem string, err error) {
	if !p.looked.Load() {
		return place, false, "", ErrUnread
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	place, ok, problem = p.book.Place(namespace)
	return place, ok, problem, nil
}

// Touch looks again at the EIps that Services may use, and at those of other namespaces that
// have the same address: their rows have changed. Without any, all EIps are looked at.
func (p *Projects) Touch(services ...types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(services) == 0 {
		p.queueAll(p.book.EIps(""))
	}
	for _, s := range services {
		names := p.book.EIpsOf(s)
		p.queueNames(s.Namespace, names)
		for _, name := range names {
			p.queueAll(p.book.Sharers(types.NamespacedName{Namespace: s.Namespace, Name: name}))
		}
	}
}

// work serves EIps until the queue ends.
func (p *Projects) work(ctx context.Context) {
	for {
		key, end := p.queue.Get()
		if end {
			return
		}
		again, err := p.serve(ctx, key)
		switch {
		case err != nil:
			if ctx.Err() == nil && !transient(err) {
				p.o.Log.Warn("EIp not served; trying again", "eip", key, "error", err)
			}
			p.queue.AddRateLimited(key)
		default:
			p.queue.Forget(key)
			if again > 0 {
				p.queue.AddAfter(key, again)
			}
		}
		p.queue.Done(key)
	}
}

func (p *Projects) serve(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if err := p.readable(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	v := p.book.LookAtEIp(key, p.o.Rows, time.Now())
	plan, again := v.EIp(key.Name)
	at, _, _ := p.book.Place(key.Namespace)
	var concerned []types.NamespacedName
	for _, c := range v.Claims {
		if p.hasOther(c.Service.Key, func() eip.Binding { return v.Service(c.Service.UID) }) {
			concerned = append(concerned, c.Service.Key)
		}
	}
	p.mu.Unlock()
	p.wakeUp(wakes{services: concerned})
	if p.o.DryRun {
		return again, nil
	}
	// Routes go before the EIp that they were for.
	if err := p.unroute(ctx, at.Vpc); err != nil {
		return 0, err
	}
	return again, p.Do(ctx, plan)
}
