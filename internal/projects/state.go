package projects

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
)

// state collects all that is known about a namespace.
func (p *Projects) state(ctx context.Context, namespace string) (*eip.State, error) {
	s := &eip.State{Namespace: namespace, Serves: p.o.Serves, Names: map[string]types.UID{}, Published: map[types.UID][]netip.Addr{}, OvnEips: map[string]*kubeovn.OvnEip{}, Vpcs: map[string]*kubeovn.Vpc{}, Now: time.Now()}
	var (
		ns       corev1.Namespace
		services corev1.ServiceList
		eips     api.EIpList
		fips     api.FIpList
		projects api.ProjectList
		ovnEips  kubeovn.OvnEipList
		subnets  kubeovn.SubnetList
		vpcs     kubeovn.VpcList
		in       = client.InNamespace(namespace)
	)
	if err := p.cache.Get(ctx, client.ObjectKey{Name: namespace}, &ns); apierrors.IsNotFound(err) {
		ns.ObjectMeta = metav1.ObjectMeta{Name: namespace}
	} else if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	lists := []struct {
		list    client.ObjectList
		options []client.ListOption
	}{{&services, []client.ListOption{in}}, {&eips, []client.ListOption{in}}, {&fips, []client.ListOption{in}}, {&ovnEips, nil}, {&subnets, nil}, {&vpcs, nil}}
	if p.kinds.Has(kindProject) {
		lists = append(lists, struct {
			list    client.ObjectList
			options []client.ListOption
		}{&projects, nil})
	}
	for _, l := range lists {
		if err := p.cache.List(ctx, l.list, append(l.options, client.UnsafeDisableDeepCopy)...); err != nil {
			return nil, fmt.Errorf("list for namespace %s: %w", namespace, err)
		}
	}
	n := kubedc.Network{}
	for i := range vpcs.Items {
		s.Vpcs[vpcs.Items[i].Name] = &vpcs.Items[i]
		n.Vpcs = append(n.Vpcs, &vpcs.Items[i])
	}
	for i := range subnets.Items {
		s.Subnets = append(s.Subnets, &subnets.Items[i])
	}
	for i := range ovnEips.Items {
		s.OvnEips[ovnEips.Items[i].Name] = &ovnEips.Items[i]
		n.OvnEips = append(n.OvnEips, &ovnEips.Items[i])
	}
	for i := range projects.Items {
		n.Projects = append(n.Projects, &projects.Items[i])
	}
	for i := range eips.Items {
		s.EIps = append(s.EIps, &eips.Items[i])
	}
	for i := range fips.Items {
		s.FIps = append(s.FIps, &fips.Items[i])
	}
	for i := range services.Items {
		value := kubeapi.Service(&services.Items[i])
		s.Names[value.Key.Name] = value.UID
		if c, ok := p.o.Claim(value); !ok {
			if published := value.Published(); len(published) > 0 {
				s.Published[value.UID] = published
			}
		} else if !value.Deleting {
			s.Claims = append(s.Claims, c)
		}
	}
	n.Subnets, n.EIps = s.Subnets, s.EIps
	place, ok, problem := kubedc.Locate(&ns.ObjectMeta, n)
	if s.Problem = problem; ok {
		s.Place = &place
	}
	rows, err := p.o.Rows()
	s.Rows, s.RowsUnknown = rows, err != nil
	return s, nil
}
