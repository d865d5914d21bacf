package projects

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/routes"
)

// noteNamespace looks again at a namespace whose annotations are others.
func (p *Projects) noteNamespace(before, after client.Object) wakes {
	name := either(before, after).GetName()
	var annotations map[string]string
	if after != nil {
		annotations = after.GetAnnotations()
	}
	p.book.Namespace(name, annotations)
	if before != nil && after != nil && maps.Equal(before.GetAnnotations(), annotations) {
		return wakes{}
	}
	return p.again(name)
}

// again looks at all of some namespaces.
func (p *Projects) again(namespaces ...string) (out wakes) {
	slices.Sort(namespaces)
	for _, n := range slices.Compact(namespaces) {
		p.queueAll(p.book.EIps(n))
		out.services = append(out.services, p.book.Services(n)...)
	}
	return out
}

// noteNetwork looks again at the namespaces that a network is for. How many addresses a
// subnet has left changes with every address, and is for sentences only.
func (p *Projects) noteNetwork(before, after client.Object) wakes {
	if before != nil && after != nil && reflect.DeepEqual(network(before), network(after)) {
		return broken(after)
	}
	var concerned []string
	for _, o := range []client.Object{before, after} {
		switch o := o.(type) {
		case *kubeovn.Vpc:
			concerned = append(append(concerned, o.Name), o.Spec.Namespaces...)
		case *api.Project:
			if o.Status.Namespace != "" {
				concerned = append(concerned, o.Status.Namespace)
			}
		case *kubeovn.Subnet:
			p.queueAll(p.book.EIps(""))
			return wakes{all: true}
		}
	}
	return p.again(concerned...)
}

// broken are Services whose policy routes somebody has removed.
func broken(o client.Object) (out wakes) {
	if v, ok := o.(*kubeovn.Vpc); ok {
		for _, text := range routes.Broken(v) {
			namespace, name, _ := strings.Cut(text, "/")
			out.services = append(out.services, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return out
}

// network is what of an object says where addresses are from.
func network(o client.Object) any {
	switch o := o.(type) {
	case *kubeovn.Vpc:
		spec := o.Spec
		spec.PolicyRoutes = nil
		return []any{spec, o.Status}
	case *kubeovn.Subnet:
		return []any{o.Labels, o.Spec, o.DeletionTimestamp}
	case *api.Project:
		return []any{o.Spec, o.Status}
	}
	return o
}
