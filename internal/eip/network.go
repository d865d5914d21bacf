package eip

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
)

// network is what all namespaces share. It changes seldom: what follows from it is made
// anew when it does.
type network struct {
	vpcs     map[string]*kubeovn.Vpc
	subnets  map[string]*kubeovn.Subnet
	projects map[types.NamespacedName]*api.Project
	gateways map[string]*kubeovn.OvnEip // those that may be ports of routers

	// all and external are for views, which keep them: they are replaced, not changed.
	all      map[string]*kubeovn.Vpc
	external []*kubeovn.Subnet
	lists    *kubedc.Network
}

func newNetwork() network {
	return network{vpcs: map[string]*kubeovn.Vpc{}, subnets: map[string]*kubeovn.Subnet{}, projects: map[types.NamespacedName]*api.Project{}, gateways: map[string]*kubeovn.OvnEip{}}
}

// Vpc has changed; nil is that it is gone.
func (b *Book) Vpc(name string, v *kubeovn.Vpc) { change(b, b.vpcs, name, v) }

// Subnet has changed; nil is that it is gone.
func (b *Book) Subnet(name string, s *kubeovn.Subnet) {
	old := b.subnets[name]
	if old != nil && s != nil && sameNetwork(old, s) { // only how many addresses are left
		b.subnets[name] = s
		if i := slices.Index(b.external, old); i >= 0 {
			b.external = slices.Clone(b.external)
			b.external[i] = s
		}
		return
	}
	change(b, b.subnets, name, s)
}

func sameNetwork(a, b *kubeovn.Subnet) bool {
	return maps.Equal(a.Labels, b.Labels) && a.Spec.Vlan == b.Spec.Vlan && a.Spec.Provider == b.Spec.Provider
}

// Project has changed; nil is that it is gone.
func (b *Book) Project(key types.NamespacedName, p *api.Project) { change(b, b.projects, key, p) }

func change[K comparable, T any](b *Book, all map[K]*T, key K, o *T) {
	if o == nil {
		delete(all, key)
	} else {
		all[key] = o
	}
	b.moved()
}

// moved forgets what followed from the network.
func (b *Book) moved() {
	b.lists, b.all, b.external = nil, nil, nil
	for _, s := range b.spaces {
		s.place = nil
	}
}

func (b *Book) gatewayChanged(old, o *kubeovn.OvnEip) {
	is := func(o *kubeovn.OvnEip) bool { return o != nil && strings.HasSuffix(o.Name, "-"+o.Spec.ExternalSubnet) }
	if is(old) {
		delete(b.gateways, old.Name)
	}
	if is(o) {
		b.gateways[o.Name] = o
	}
	if is(old) || is(o) {
		b.moved()
	}
}

func (b *Book) prepare() {
	if b.lists == nil {
		b.lists = &kubedc.Network{Vpcs: slices.Collect(maps.Values(b.vpcs)), Subnets: slices.Collect(maps.Values(b.subnets)),
			Projects: slices.Collect(maps.Values(b.projects)), OvnEips: slices.Collect(maps.Values(b.gateways))}
		b.all = maps.Clone(b.vpcs)
	}
	if b.external == nil {
		b.external = []*kubeovn.Subnet{}
		for _, s := range b.subnets {
			if s.Labels[kubedc.LabelNetworkType] != "" {
				b.external = append(b.external, s)
			}
		}
		slices.SortFunc(b.external, func(x, y *kubeovn.Subnet) int { return strings.Compare(x.Name, y.Name) })
	}
}

// GetVpc returns a Vpc; nil if there is none.
func (b *Book) GetVpc(name string) *kubeovn.Vpc { return b.vpcs[name] }

// Behind are EIps without an address that may wait for an OvnEip, because it is the
// gateway of their router.
func (b *Book) Behind(gateway string) (out []types.NamespacedName) {
	o := b.gateways[gateway]
	if o == nil {
		return nil
	}
	vpc := strings.TrimSuffix(gateway, "-"+o.Spec.ExternalSubnet)
	namespaces := []string{vpc}
	if v := b.vpcs[vpc]; v != nil {
		namespaces = append(namespaces, v.Spec.Namespaces...)
	}
	for _, namespace := range namespaces {
		if s := b.spaces[namespace]; s != nil {
			for name, e := range s.eips {
				if !e.Status.Ready {
					out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
				}
			}
		}
	}
	return out
}

// Place is where the Services of a namespace are served. ok is false if that is not known,
// and problem may say why.
func (b *Book) Place(namespace string) (p kubedc.Place, ok bool, problem string) {
	s := b.space(namespace)
	if s.place == nil {
		b.prepare()
		n := *b.lists
		if gateway := s.eips[kubedc.DefaultGateway]; gateway != nil {
			n.EIps = []*api.EIp{gateway}
		}
		s.place = &located{}
		s.place.Place, s.place.ok, s.place.problem = kubedc.Locate(&metav1.ObjectMeta{Name: namespace, Annotations: s.annotations}, n)
	}
	return s.place.Place, s.place.ok, s.place.problem
}

// External are the external subnets.
func (b *Book) External() []*kubeovn.Subnet {
	b.prepare()
	return b.external
}

// subnetsFor are the external subnets, and others that are named.
func (b *Book) subnetsFor(names ...string) []*kubeovn.Subnet {
	out := b.external
	for _, name := range names {
		if s := b.subnets[name]; s != nil && s.Labels[kubedc.LabelNetworkType] == "" && !slices.Contains(out, s) {
			out = append(slices.Clip(out), s)
		}
	}
	return out
}
