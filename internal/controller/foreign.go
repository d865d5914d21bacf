package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// Kinds of MetalLB that are read, the one that is written, and those of which
// only the names are read: they have no effect here, which is told.
var (
	kindPool          = metallbapi.GroupVersion.WithKind(metallb.KindPool)
	kindAdvertisement = metallbapi.GroupVersion.WithKind(metallb.KindAdvertisement)
	kindState         = metallbapi.GroupVersion.WithKind("ConfigurationState")
	unservedKinds     = []schema.GroupVersionKind{
		{Group: metallbapi.GroupVersion.Group, Version: "v1beta2", Kind: "BGPPeer"},
		metallbapi.GroupVersion.WithKind("BGPAdvertisement"),
		metallbapi.GroupVersion.WithKind("BFDProfile"),
		metallbapi.GroupVersion.WithKind("Community"),
	}
)

// foreign are the objects of MetalLB's kinds, as far as those are installed.
type foreign struct {
	// namespace in which objects count.
	namespace string
	// pod of this controller, if it is in that namespace.
	pod    *metav1.OwnerReference
	kinds  *optional
	ledger *ledger

	updates, failures prometheus.Counter
}

// newForeign returns nil if no class uses MetalLB's pools.
func newForeign(o Options, kinds *optional, l *ledger) *foreign {
	if !o.Config.Uses(lb.MetalLB) {
		return nil
	}
	return &foreign{
		namespace: o.MetalLBNamespace, pod: o.Pod, kinds: kinds, ledger: l,
		updates: prometheus.NewCounter(metallbUpdatesOpts), failures: prometheus.NewCounter(metallbErrorsOpts),
	}
}

// metallbKinds are all that would be watched.
func metallbKinds() (out []optionalKind) {
	for _, kind := range append([]schema.GroupVersionKind{kindPool, kindAdvertisement, kindState}, unservedKinds...) {
		out = append(out, optionalKind{GroupVersionKind: kind, object: objectOf(kind)})
	}
	return out
}

// source reconciles all pools together when what somebody wrote has changed, and
// looks after the statuses when anything has.
func (f *foreign) source(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, k := range metallbKinds() {
		err := f.kinds.follow(k.GroupVersionKind, follower{
			came: f.ledger.touch, // there may be something to say, though no object has come
			changed: func(before, after client.Object) {
				if theirs := k.GroupVersionKind == kindPool || k.GroupVersionKind == kindAdvertisement; theirs && changedByHand(before, after) {
					queue.Add(reconcile.Request{})
				} else {
					f.ledger.touch()
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", k.Kind, err)
		}
	}
	return nil
}

// changedByHand says whether more has changed than a status; nil is an object that
// is not there.
func changedByHand(before, after client.Object) bool {
	return before == nil || after == nil || before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels())
}

// has says whether a kind is there.
func (f *foreign) has(kind schema.GroupVersionKind) bool { return f.kinds.has(kind) }

// read returns all objects that there are. They are the cache's: nobody may
// change them.
func (f *foreign) read(ctx context.Context, c client.Reader) (*metallb.Objects, error) {
	out := &metallb.Objects{Namespace: f.namespace}
	if f.has(kindPool) {
		var list metallbapi.IPAddressPoolList
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kindPool.Kind, err)
		}
		out.Pools = list.Items
	}
	if f.has(kindAdvertisement) {
		var list metallbapi.L2AdvertisementList
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kindAdvertisement.Kind, err)
		}
		out.Advertisements = list.Items
	}
	for _, kind := range unservedKinds {
		if !f.has(kind) {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			out.Unserved = append(out.Unserved, metallb.Unserved{Kind: kind.Kind, Object: client.ObjectKeyFromObject(o), UID: o.GetUID()})
		}
	}
	return out, nil
}

func objectOf(kind schema.GroupVersionKind) client.Object {
	switch kind {
	case kindPool:
		return &metallbapi.IPAddressPool{}
	case kindAdvertisement:
		return &metallbapi.L2Advertisement{}
	case kindState:
		return &metallbapi.ConfigurationState{}
	}
	// Not PartialObjectMetadata, whose watches leave goroutines behind.
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// unservedVersion returns group and version of one of unservedKinds.
func unservedVersion(name string) string {
	i := slices.IndexFunc(unservedKinds, func(k schema.GroupVersionKind) bool { return k.Kind == name })
	return unservedKinds[i].GroupVersion().String()
}
