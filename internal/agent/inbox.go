package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/apiretry"
)

// changes is what happened in the cluster since it was last asked.
type changes struct {
	services map[types.NamespacedName]bool
	slices   map[types.NamespacedName]bool
	nodes    bool
	pools    bool
	agent    bool          // this node's
	leases   *leaseReports // of all agents
	// allServices are to be read again, not those in services only.
	allServices bool
}

func newChanges() changes {
	return changes{services: map[types.NamespacedName]bool{}, slices: map[types.NamespacedName]bool{}}
}

// inbox collects changes from the informers without ever making them wait.
type inbox struct {
	mu      sync.Mutex
	pending changes
	arrived chan struct{}
}

func newInbox() *inbox { return &inbox{pending: newChanges(), arrived: make(chan struct{}, 1)} }

func (i *inbox) add(note func(*changes)) {
	i.mu.Lock()
	note(&i.pending)
	i.mu.Unlock()
	select {
	case i.arrived <- struct{}{}:
	default:
	}
}

func (i *inbox) take() changes {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := i.pending
	i.pending = newChanges()
	return out
}

// sources notes what has changed in other configuration formats.
func (i *inbox) sources() sources.Changes {
	return sources.Changes{
		Pools:    func() { i.add(func(c *changes) { c.pools = true }) },
		Services: func() { i.add(func(c *changes) { c.allServices = true }) },
	}
}

// count is how many things have changed.
func (c *changes) count() int {
	n := len(c.services) + len(c.slices)
	for _, one := range []bool{c.nodes, c.pools} {
		if one {
			n++
		}
	}
	return n
}

// newCache returns a cache of what the agent of a node reads, stripped to that. Of Agent
// objects that is its own: what the others do is known by gossip.
func newCache(c *rest.Config, node string, log *slog.Logger) (cache.Cache, error) {
	scheme, err := sources.NewScheme()
	if err != nil {
		return nil, err
	}
	return apiretry.NewCache(log, nil)(c, cache.Options{
		Scheme:                       scheme,
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: ptr.To(true),
		ByObject: map[client.Object]cache.ByObject{
			&discoveryv1.EndpointSlice{}: {Transform: slimSlice},
			&v1alpha1.Agent{}:            {Field: fields.OneTermEqualSelector("metadata.name", node)},
		},
	})
}

// slimSlice keeps of each endpoint where it is and whether it serves.
func slimSlice(in any) (any, error) {
	if s, ok := in.(*discoveryv1.EndpointSlice); ok {
		s.ManagedFields, s.Annotations, s.Ports = nil, nil, nil
		for i, e := range s.Endpoints {
			s.Endpoints[i] = discoveryv1.Endpoint{Conditions: e.Conditions, NodeName: e.NodeName}
		}
	}
	return in, nil
}

// notes says for each kind what to note when an object of it has changed.
type notes map[client.Object]func(*changes, client.Object)

// always are the kinds without which there is nothing to announce.
var always = notes{
	&corev1.Service{}:            func(c *changes, o client.Object) { c.services[client.ObjectKeyFromObject(o)] = true },
	&discoveryv1.EndpointSlice{}: func(c *changes, o client.Object) { c.slices[client.ObjectKeyFromObject(o)] = true },
	&corev1.Node{}:               func(c *changes, _ client.Object) { c.nodes = true },
	&v1alpha1.Pool{}:             func(c *changes, _ client.Object) { c.pools = true },
	&v1alpha1.Agent{}:            func(c *changes, _ client.Object) { c.agent = true },
}

// follow notes every change of objects of kinds.
func (i *inbox) follow(ctx context.Context, c cache.Cache, kinds notes) error {
	for kind, note := range kinds {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		arrived := func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if object, ok := o.(client.Object); ok {
				i.add(func(c *changes) { note(c, object) })
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: arrived, DeleteFunc: arrived, UpdateFunc: func(_, o any) { arrived(o) },
		}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
