package metallb

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent/write"
)

const kindBGPStatus = "ServiceBGPStatus"

// bgpStatuses keeps the ServiceBGPStatus objects of this node in line with the peers that it
// announces Services to.
type bgpStatuses struct {
	node, namespace string
	client          client.Client
	owner           ownership
	arrived         chan struct{}

	mu   sync.Mutex
	want map[types.NamespacedName][]string // peers

	passing sync.Mutex
}

func (b *bgpStatuses) set(want map[types.NamespacedName][]string) {
	b.mu.Lock()
	same := maps.EqualFunc(want, b.want, slices.Equal)
	b.want = want
	b.mu.Unlock()
	if !same {
		write.Wake(b.arrived)
	}
}

// finish removes the node's objects.
func (b *bgpStatuses) finish(ctx context.Context) error {
	b.set(nil)
	for {
		if more, err := b.pass(ctx); !more || err != nil {
			return err
		}
	}
}

// pass does some of what is to be done, and says whether there is more.
func (b *bgpStatuses) pass(ctx context.Context) (more bool, err error) {
	b.passing.Lock()
	defer b.passing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b.mu.Lock()
	want := b.want
	b.mu.Unlock()
	owner, err := b.owner.reference(ctx)
	if err != nil {
		return false, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(apimetallb.GroupVersion.WithKind(kindBGPStatus + "List"))
	if err := b.client.List(ctx, list, client.InNamespace(b.namespace), client.MatchingLabels{apimetallb.LabelNode: b.node}); err != nil {
		return false, err
	}
	steps := planBGP(b.node, owner.UID, want, list.Items)
	for _, s := range steps[:min(len(steps), maxL2Steps)] {
		if err := b.do(ctx, s, owner, want[s.service]); err != nil && !write.Refused(err) {
			return false, err
		}
	}
	return len(steps) > maxL2Steps, nil
}

// planBGP returns what makes the objects of this node say to which peers it announces which
// Services.
func planBGP(node string, owner types.UID, want map[types.NamespacedName][]string, have []unstructured.Unstructured) []l2Step {
	var steps []l2Step
	there := sets.New[types.NamespacedName]()
	have = slices.Clone(have)
	slices.SortFunc(have, func(x, y unstructured.Unstructured) int { return cmp.Compare(x.GetName(), y.GetName()) })
	for i := range have {
		o := &have[i]
		service := types.NamespacedName{Namespace: o.GetLabels()[apimetallb.LabelServiceNamespace], Name: o.GetLabels()[apimetallb.LabelServiceName]}
		peers, wanted := want[service]
		owners := o.GetOwnerReferences()
		mine := o.GetDeletionTimestamp() == nil && len(owners) == 1 && owners[0].UID == owner
		if !wanted || !mine || there.Has(service) {
			steps = append(steps, l2Step{"delete", o.GetName(), service})
			continue
		}
		there.Insert(service)
		said, _, _ := unstructured.NestedStringSlice(o.Object, "status", "peers")
		on, _, _ := unstructured.NestedString(o.Object, "status", "node")
		if !slices.Equal(said, peers) || on != node {
			steps = append(steps, l2Step{"write", o.GetName(), service})
		}
	}
	for service := range want {
		if !there.Has(service) {
			steps = append(steps, l2Step{"create", "", service})
		}
	}
	slices.SortFunc(steps, func(x, y l2Step) int {
		return cmp.Or(cmp.Compare(x.service.String(), y.service.String()), cmp.Compare(x.verb, y.verb), cmp.Compare(x.object, y.object))
	})
	return steps
}

func (b *bgpStatuses) do(ctx context.Context, s l2Step, owner metav1.OwnerReference, peers []string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(apimetallb.GroupVersion.WithKind(kindBGPStatus))
	o.SetNamespace(b.namespace)
	o.SetName(s.object)
	switch s.verb {
	case "delete":
		return b.client.Delete(ctx, o)
	case "create":
		o.SetName("")
		o.SetGenerateName("bgp-")
		o.SetLabels(map[string]string{apimetallb.LabelNode: b.node, apimetallb.LabelServiceName: s.service.Name, apimetallb.LabelServiceNamespace: s.service.Namespace})
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		if err := b.client.Create(ctx, o); err != nil {
			return err
		}
	}
	return write.PatchStatus(ctx, b.client, o, map[string]any{
		"node": b.node, "serviceName": s.service.Name, "serviceNamespace": s.service.Namespace, "peers": peers,
	})
}
