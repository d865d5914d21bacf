package sources

import (
	"context"
	"log/slog"
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

	metallb atomic.Pointer[cache.Cache] // nil as long as MetalLB's kinds are not there
	kubevip client.Reader               // of the ConfigMap; nil if it is not read
	config  *kubevip.Config
}

// New returns a reader of what is in cluster, a cache. Follow adds the formats of
// others.
func New(o Options, cluster client.Reader) *Reader {
	if o.KubeVIP.Name == "" {
		o.KubeVIP = types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}
	}
	return &Reader{o: o, cluster: cluster, config: kubevip.Parse(nil)}
}

// Follow watches the objects of other load balancers that the configuration names,
// until background ends. It returns when those that are there have been read.
func (r *Reader) Follow(ctx, background context.Context, running *sync.WaitGroup, changed Changes) error {
	if r.o.Config.Uses(metallb.Name) {
		if err := r.followMetalLB(ctx, background, running, changed.Pools); err != nil {
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
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(_, _ any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	return err
}
