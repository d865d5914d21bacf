package projects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
)

// Locate returns where the Services of a namespace are served, as kubedc.Locate does. None
// of the kinds has to be there.
func (p *Projects) Locate(ctx context.Context, namespace string) (place kubedc.Place, ok bool, problem string, err error) {
	if !p.looked.Load() || !p.cache.WaitForCacheSync(ctx) {
		return place, false, "", ErrUnread
	}
	var ns corev1.Namespace
	if err := p.cache.Get(ctx, client.ObjectKey{Name: namespace}, &ns); apierrors.IsNotFound(err) {
		ns.ObjectMeta = metav1.ObjectMeta{Name: namespace}
	} else if err != nil {
		return place, false, "", fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	n, err := p.network(ctx)
	if err != nil {
		return place, false, "", err
	}
	place, ok, problem = kubedc.Locate(&ns.ObjectMeta, n)
	return place, ok, problem, nil
}

// network is what there is of Vpcs, Subnets and Projects.
func (p *Projects) network(ctx context.Context) (out kubedc.Network, err error) {
	var (
		projects api.ProjectList
		subnets  kubeovn.SubnetList
		vpcs     kubeovn.VpcList
	)
	for kind, list := range map[string]client.ObjectList{kindProject.Kind: &projects, kindSubnet.Kind: &subnets, kindVpc.Kind: &vpcs} {
		for _, k := range kinds {
			if k.Kind != kind || !p.kinds.Has(k.GroupVersionKind) {
				continue
			}
			if err := p.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				return out, fmt.Errorf("list %s: %w", kind, err)
			}
		}
	}
	for i := range projects.Items {
		out.Projects = append(out.Projects, &projects.Items[i])
	}
	for i := range subnets.Items {
		out.Subnets = append(out.Subnets, &subnets.Items[i])
	}
	for i := range vpcs.Items {
		out.Vpcs = append(out.Vpcs, &vpcs.Items[i])
	}
	return out, nil
}

// overlay adds a Service to a state, in place of an older version of it.
func (p *Projects) overlay(s *eip.State, service *lb.Service) {
	claim, ok := p.o.Claim(service)
	if !ok || service.Deleting {
		return
	}
	s.Names[service.Key.Name] = service.UID
	for i := range s.Claims {
		if have := s.Claims[i].Service; have.Key == service.Key {
			if order, err := resourceversion.CompareResourceVersion(have.Version, service.Version); err != nil || order < 0 {
				s.Claims[i] = claim
			}
			return
		}
	}
	s.Claims = append(s.Claims, claim)
}
