package sources

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
)

// Options say what to read.
type Options struct {
	REST   *rest.Config
	Config *config.Configuration
	Log    *slog.Logger

	// MetalLBNamespace is where objects of MetalLB's kinds count.
	MetalLBNamespace string
	// KubeVIP is the ConfigMap of kube-vip's cloud provider, kube-system/kubevip
	// unless it is given. Interface is the one on which Services are announced that
	// are read in kube-vip's format, unless they or the ConfigMap name another.
	KubeVIP   types.NamespacedName
	Interface string
	// KubeVIPBGP, if not nil, is what kube-vip's environment says about BGP: Services that are
	// read in its format are announced to these peers instead. Node is this node, whose
	// annotations may name them.
	KubeVIPBGP *config.KubeVIPBGP
	Node       string
}

// Changes is called when something has changed.
type Changes struct {
	Pools    func() // pools are to be read again
	Services func() // pools and all Services are to be read again
}

// Reader reads. All methods but Follow are for one goroutine.
type Reader struct {
	o       Options
	cluster client.Reader // Pools of our own

	metallb atomic.Pointer[client.Reader] // nil as long as MetalLB's kinds are not there
	kubevip client.Reader                 // of the ConfigMap; nil if it is not read
	config  *kubevip.Config
	routers routers
}

// New returns a reader of what is in cluster, a cache. Follow adds the formats of
// others.
func New(o Options, cluster client.Reader) *Reader {
	if o.KubeVIP.Name == "" {
		o.KubeVIP = types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}
	}
	needed, tried := make(chan struct{}), make(chan struct{})
	return &Reader{o: o, cluster: cluster, config: kubevip.Parse(nil), routers: routers{
		needed: needed, need: sync.OnceFunc(func() { close(needed) }), tried: tried, try: sync.OnceFunc(func() { close(tried) })}}
}

// NewOf returns a reader of what is in all, objects of every format that somebody has
// read. It follows nothing. Of BGPPeers, all has those of one version.
func NewOf(o Options, all client.Reader) *Reader {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := New(o, all)
	if o.Config.Uses(metallb.Name) {
		r.metallb.Store(&all)
		objects := &bgpObjects{Reader: all, alone: true}
		for _, k := range metallb.BGPKinds() {
			objects.kinds = append(objects.kinds, k.GroupVersionKind)
		}
		r.routers.objects.Store(objects)
	}
	if o.Config.Uses(kubevip.Name) {
		r.kubevip = all
	}
	return r
}

// Follow watches the objects of other load balancers that the configuration names,
// until background ends. It returns when those that are there have been read.
func (r *Reader) Follow(ctx, background context.Context, running *sync.WaitGroup, changed Changes) error {
	if r.o.Config.Uses(metallb.Name) {
		if err := r.followMetalLB(ctx, background, running, changed.Pools); err != nil {
			return err
		}
		if err := r.followBGP(ctx, background, running, changed.Pools); err != nil {
			return err
		}
	}
	if r.o.Config.Uses(kubevip.Name) {
		return r.followKubeVIP(ctx, background, running, changed.Services)
	}
	return nil
}

// Leases says whether Services may have addresses that DHCP servers assign.
func (r *Reader) Leases() bool { return r.o.Config.Uses(kubevip.Name) }

// NewScheme has all kinds that agents read and write.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, v1alpha1.AddToScheme, apimetallb.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// class returns the class of a Service whose addresses agents announce, or nil.
func (r *Reader) class(s *corev1.Service) *config.Class {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var name string
	if s.Spec.LoadBalancerClass != nil {
		name = *s.Spec.LoadBalancerClass
	}
	class := r.o.Config.Class(name)
	switch {
	case class == nil || class.Backend != config.Announce && !class.Backend.Places():
		return nil
	case slices.Contains(class.Pools, kubevip.Name) && kubevip.Ignored(kubeapi.Service(s)):
		return nil
	}
	return class
}

// OnChange calls changed whenever an object of the kind has changed.
func OnChange(ctx context.Context, c cache.Cache, kind client.Object, changed func()) error {
	return onChange(ctx, c, kind, func(_, _ any) { changed() })
}

// onSpecChange is OnChange for kinds of which the status is not read.
func onSpecChange(ctx context.Context, c cache.Cache, kind client.Object, changed func()) error {
	return onChange(ctx, c, kind, func(before, after any) {
		if !onlyStatus(before, after) {
			changed()
		}
	})
}

func onChange(ctx context.Context, c cache.Cache, kind client.Object, changed func(before, after any)) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { changed(nil, o) }, UpdateFunc: changed, DeleteFunc: func(o any) { changed(o, nil) },
	})
	return err
}

// onlyStatus says whether nothing but the status has changed: the controller writes it, and
// agents do not read it. Kinds without a generation have none.
func onlyStatus(before, after any) bool {
	was, ok := before.(client.Object)
	now, also := after.(client.Object)
	return ok && also && now.GetGeneration() != 0 && was.GetGeneration() == now.GetGeneration() && was.GetUID() == now.GetUID() &&
		maps.Equal(was.GetLabels(), now.GetLabels()) && maps.Equal(was.GetAnnotations(), now.GetAnnotations())
}
