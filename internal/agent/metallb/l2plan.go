package metallb

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent"
)

// l2Step is one thing to do about ServiceL2Status objects: of a Service there is
// one for each node that announces it.
type l2Step struct {
	verb    string // "create", "write" its status, or "delete"
	object  string // its name; of one to be created nobody knows it yet
	service types.NamespacedName
}

// planL2 returns what makes the objects that there are say what node announces:
// its own, and those of nodes that announce a Service of want no longer. have has
// at least all of the node's. owner is that of the node's objects.
func planL2(node string, owner types.UID, want map[types.NamespacedName]agent.Presence, have []apimetallb.ServiceL2Status) []l2Step {
	var steps []l2Step
	there := sets.New[types.NamespacedName]()
	for _, o := range byName(have) {
		service := types.NamespacedName{Namespace: o.Labels[apimetallb.LabelServiceNamespace], Name: o.Labels[apimetallb.LabelServiceName]}
		p, wanted := want[service]
		of := o.Labels[apimetallb.LabelNode]
		switch {
		case of != node && (!wanted || p.Others.Has(of)):
		case of != node, !wanted, !owned(o, owner), there.Has(service), !written(o, node, service):
			steps = append(steps, l2Step{"delete", o.Name, service})
		default:
			there.Insert(service)
			if !says(o, node, service, p) {
				steps = append(steps, l2Step{"write", o.Name, service})
			}
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

func byName(all []apimetallb.ServiceL2Status) []*apimetallb.ServiceL2Status {
	var out []*apimetallb.ServiceL2Status
	for i := range all {
		out = append(out, &all[i])
	}
	slices.SortFunc(out, func(x, y *apimetallb.ServiceL2Status) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// owned: an object of an earlier agent, or of MetalLB's speaker on this node,
// goes with that.
func owned(o *apimetallb.ServiceL2Status, owner types.UID) bool {
	return o.DeletionTimestamp == nil && len(o.OwnerReferences) == 1 && o.OwnerReferences[0].UID == owner
}

// written: what its status says of node and Service, if anything, is right. It
// cannot be changed.
func written(o *apimetallb.ServiceL2Status, node string, service types.NamespacedName) bool {
	blank := o.Status.Node == "" && o.Status.ServiceName == "" && o.Status.ServiceNamespace == ""
	return blank || o.Status.Node == node && o.Status.ServiceName == service.Name && o.Status.ServiceNamespace == service.Namespace
}

func says(o *apimetallb.ServiceL2Status, node string, service types.NamespacedName, p agent.Presence) bool {
	want := l2Status(node, service, p)
	return o.Status.Node == want.Node && o.Status.ServiceName == want.ServiceName && o.Status.ServiceNamespace == want.ServiceNamespace &&
		slices.Equal(o.Status.Interfaces, want.Interfaces)
}

func l2Status(node string, service types.NamespacedName, p agent.Presence) apimetallb.L2Status {
	s := apimetallb.L2Status{Node: node, ServiceName: service.Name, ServiceNamespace: service.Namespace}
	for _, name := range p.Interfaces {
		s.Interfaces = append(s.Interfaces, apimetallb.InterfaceInfo{Name: name})
	}
	return s
}

// l2Object is a new one; its status is written after it.
func l2Object(namespace, node string, owner metav1.OwnerReference, service types.NamespacedName) *apimetallb.ServiceL2Status {
	return &apimetallb.ServiceL2Status{ObjectMeta: metav1.ObjectMeta{
		Namespace:    namespace,
		GenerateName: "l2-",
		Labels: map[string]string{
			apimetallb.LabelNode:             node,
			apimetallb.LabelServiceName:      service.Name,
			apimetallb.LabelServiceNamespace: service.Namespace,
		},
		OwnerReferences: []metav1.OwnerReference{owner},
	}}
}

// unsettled returns the names of the Services of want whose objects of other
// nodes were not looked at since they changed.
func unsettled(want, done map[types.NamespacedName]agent.Presence) []string {
	names := sets.New[string]()
	for service, p := range want {
		if before, ok := done[service]; !ok || !p.Equal(before) {
			names.Insert(service.Name)
		}
	}
	return sets.List(names)
}
