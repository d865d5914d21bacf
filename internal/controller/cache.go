package controller

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// newScheme has our own kinds, those of Kubernetes that are read, and more.
func newScheme(more ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range append([]func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme}, more...) {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// watched are the kinds the controller reads, besides optional ones: those that
// the classes need. So a cluster that only has a cloud needs none of our kinds, and
// gives no right to read others.
func watched(c *classes) []client.Object {
	kinds := []client.Object{&corev1.Service{}}
	if c.anyFromPools() || c.needNodes() || c.needAgents() || c.agents || c.config.Nodes.Cloud != config.NoCloud {
		kinds = append(kinds, &corev1.Node{})
	}
	if c.anyFromPools() {
		kinds = append(kinds, &corev1.Namespace{})
	}
	if needsNative(c.config) {
		kinds = append(kinds, &v1alpha1.Pool{})
	}
	for _, b := range c.backends {
		if b.needs().Endpoints {
			return append(kinds, &discoveryv1.EndpointSlice{})
		}
	}
	return kinds
}

// cacheOptions keep of each object only what is read. Objects from the cache are
// not copied: nobody may change them. Of kinds of which one object counts, it is the
// one.
func cacheOptions(c *classes) cache.Options {
	o := cache.Options{DefaultTransform: c.slim, DefaultUnsafeDisableDeepCopy: ptr.To(true), ByObject: map[client.Object]cache.ByObject{}}
	for _, d := range c.dialects {
		for _, k := range d.Kinds() {
			if k.Name != "" && c.uses(d.Name()) {
				o.ByObject[k.Object] = cache.ByObject{Field: fields.Set{"metadata.namespace": k.Namespace, "metadata.name": k.Name}.AsSelector()}
			}
		}
	}
	return o
}

// slim drops what nobody reads: of Nodes, of Services that are not ours, and what
// dialects do not read of their objects.
func (c *classes) slim(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	switch o := in.(type) {
	case *corev1.Service:
		if s := kubeapi.Service(o); !s.LoadBalancer && len(s.Finalizers) == 0 && !c.markedByAny(s) {
			o.Annotations, o.Labels, o.Status = nil, nil, corev1.ServiceStatus{}
			o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, ClusterIP: o.Spec.ClusterIP, ClusterIPs: o.Spec.ClusterIPs, ExternalIPs: o.Spec.ExternalIPs}
		}
		return in, nil
	case *corev1.Node:
		spec := corev1.NodeSpec{PodCIDRs: o.Spec.PodCIDRs}
		if c.needNodes() {
			spec.ProviderID, spec.Taints, spec.Unschedulable = o.Spec.ProviderID, o.Spec.Taints, o.Spec.Unschedulable
		} else {
			o.Labels = nil
		}
		o.Annotations, o.Spec, o.Status = nil, spec, slimNodeStatus(&o.Status)
		return in, nil
	}
	o, ok := in.(compat.Object)
	if !ok {
		return in, nil
	}
	for _, d := range c.dialects {
		for _, k := range d.Kinds() {
			if k.Slim != nil && reflect.TypeOf(k.Object) == reflect.TypeOf(in) {
				k.Slim(o)
				return in, nil
			}
		}
	}
	return in, nil
}

func (c *classes) markedByAny(s *lb.Service) bool {
	for _, b := range c.backends {
		if b.marked(s) {
			return true
		}
	}
	return false
}

// needAgents says whether agents announce the addresses of any class.
func (c *classes) needAgents() bool {
	for _, b := range c.backends {
		if b.needs().Agents {
			return true
		}
	}
	return false
}

func (c *classes) needNodes() bool {
	for _, b := range c.backends {
		if b.needs().Nodes {
			return true
		}
	}
	return false
}

// slimNodeStatus keeps a node's addresses, and whether it is ready and since when.
func slimNodeStatus(s *corev1.NodeStatus) corev1.NodeStatus {
	out := corev1.NodeStatus{Addresses: s.Addresses}
	for _, c := range s.Conditions {
		if c.Type == corev1.NodeReady {
			out.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return out
}

// fillCaches starts all informers with the process, also in a replica that does
// not lead: taking over needs no listing then. It waits for an API server that is
// away.
func fillCaches(ctx context.Context, c cache.Cache, cs *classes, k *apikinds.Set, log *slog.Logger) error {
	indexed := false
	for {
		err := startInformers(ctx, c, cs, k, &indexed)
		if err == nil || meta.IsNoMatchError(err) {
			return err
		}
		log.Warn("cannot watch the API server; trying again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryAPIServer):
		}
	}
}

// indexService finds the EndpointSlices of a Service. By their label alone, all of the
// namespace would be looked at, for each Service.
const indexService = "service"

func startInformers(ctx context.Context, c cache.Cache, cs *classes, k *apikinds.Set, indexed *bool) error {
	for _, kind := range watched(cs) {
		if _, slices := kind.(*discoveryv1.EndpointSlice); slices && !*indexed {
			if err := c.IndexField(ctx, kind, indexService, func(o client.Object) []string { return []string{o.GetLabels()[discoveryv1.LabelServiceName]} }); err != nil {
				return fmt.Errorf("index %T: %w", kind, err)
			}
			*indexed = true
		}
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			if meta.IsNoMatchError(err) {
				return fmt.Errorf("the API server has no CRDs of %s: install Fairlead's CRDs (chart value crds.enabled): %w", v1alpha1.GroupVersion.Group, err)
			}
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return k.Look(ctx)
}

// promptCache tells at once when it is filled; the one in it looks every 100 ms.
type promptCache struct {
	cache.Cache
	classes *classes
	kinds   *apikinds.Set
}

func newCache(log *slog.Logger, cs *classes, k *apikinds.Set, rewound func()) cache.NewCacheFunc {
	return func(c *rest.Config, o cache.Options) (cache.Cache, error) {
		o.NewInformer = newInformer
		inner, err := apiretry.NewCache(log, rewound)(c, o)
		return promptCache{inner, cs, k}, err
	}
}

// WaitForCacheSync says whether all kinds have been listed before ctx ended:
// those that are optional, too, as far as they are there.
func (c promptCache) WaitForCacheSync(ctx context.Context) bool {
	var filled []toolscache.DoneChecker
	for _, kind := range watched(c.classes) {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return false
		}
		filled = append(filled, informer.HasSyncedChecker())
	}
	for _, informer := range c.kinds.Informers() {
		filled = append(filled, informer.HasSyncedChecker())
	}
	return toolscache.WaitFor(ctx, "", filled...)
}
