// Package projects follows the objects of kube-dc and kube-ovn in the API server, and
// carries out what package eip decides about them. Which Services there are and what they
// have in OVN's database it is told; it decides nothing by itself.
package projects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"fairlead.io/internal/compat"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
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
	// DryRun: nothing is written.
	DryRun bool
	// Claim is what a Service asks for; ok is false if the Service is not of the
	// backend's classes.
	Claim func(*lb.Service) (c eip.Claim, ok bool)
	// Rows are what load balancers of the cluster have in the database. After a change,
	// Touch is to be called. An error says that they are not known.
	Rows func() ([]eip.Row, error)
}

// The kinds that are followed. Without the first ones nothing can be decided.
var (
	kindEIp     = api.GroupVersion.WithKind("EIp")
	kindFIp     = api.GroupVersion.WithKind("FIp")
	kindProject = api.GroupVersion.WithKind("Project")
	kindOvnEip  = kubeovn.GroupVersion.WithKind("OvnEip")
	kindSubnet  = kubeovn.GroupVersion.WithKind("Subnet")
	kindVpc     = kubeovn.GroupVersion.WithKind("Vpc")

	kinds = []compat.Kind{
		{GroupVersionKind: kindEIp, Object: &api.EIp{}, List: func() runtime.Object { return &api.EIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindFIp, Object: &api.FIp{}, List: func() runtime.Object { return &api.FIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindOvnEip, Object: &kubeovn.OvnEip{}, Resource: "ovn-eips", List: func() runtime.Object { return &kubeovn.OvnEipList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindSubnet, Object: &kubeovn.Subnet{}, List: func() runtime.Object { return &kubeovn.SubnetList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindVpc, Object: &kubeovn.Vpc{}, List: func() runtime.Object { return &kubeovn.VpcList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindProject, Object: &api.Project{}, List: func() runtime.Object { return &api.ProjectList{} }, Without: "only Vpcs say which namespaces are projects"},
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
	looked atomic.Bool // which kinds there are is known
	// companions are Services whose companions are to be looked at, and companionsKnown say
	// whether all of these have been read.
	companions      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	companionsKnown []func() bool
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
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, 30*time.Second)
	return &Projects{o: o, cache: reader, client: writer, kinds: set, queue: workqueue.NewTypedRateLimitingQueue(limiter), companions: workqueue.NewTypedRateLimitingQueue(limiter)}, nil
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
	if err := p.follow(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
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

// View returns what is so in a namespace. It fails while not everything can be read: then
// everything stays as it is. Services that were seen elsewhere may be newer than those
// that were read here.
func (p *Projects) View(ctx context.Context, namespace string, seen ...*lb.Service) (*eip.View, error) {
	if !p.looked.Load() {
		return nil, ErrUnread
	}
	for _, k := range kinds {
		if why, lacks := p.kinds.Lacks(k.GroupVersionKind); lacks && k.GroupVersionKind != kindProject {
			return nil, fmt.Errorf("%w: %s", ErrLacking, why)
		}
	}
	if !p.cache.WaitForCacheSync(ctx) {
		return nil, ErrUnread
	}
	s, err := p.state(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, service := range seen {
		p.overlay(s, service)
	}
	return eip.Look(*s), nil
}

// Touch looks again at the EIps that Services may use: their rows have changed. Without
// any, all EIps are looked at.
func (p *Projects) Touch(services ...types.NamespacedName) {
	if len(services) == 0 {
		p.queueEIps("", func(*api.EIp) bool { return true })
	}
	for _, service := range services {
		var s corev1.Service
		if err := p.cache.Get(context.Background(), client.ObjectKey(service), &s); err != nil {
			s.ObjectMeta = metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}
		}
		p.serviceChanged(&s, &s)
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
	v, err := p.View(ctx, key.Namespace)
	if err != nil {
		return 0, err
	}
	plan, again := v.EIp(key.Name)
	if p.o.DryRun {
		plan = lb.Plan{}
	}
	if err := p.Do(ctx, plan); err != nil {
		return 0, err
	}
	if concerned := v.Concerned(key.Name); len(concerned) > 0 {
		p.wake(concerned...)
	}
	return again, nil
}
