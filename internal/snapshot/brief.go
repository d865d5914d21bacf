package snapshot

import (
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

// A brief snapshot makes at most ten lists, whatever the cluster has. It leaves out what
// others report: agents that no endpoint of a Service serves, and which peers lack their
// BFDProfile; the controller, on advertisements, what is wrong with their communities.

// defaultServiceCIDR is the network of ClusterIPs that the API server creates.
const defaultServiceCIDR = "kubernetes"

// leftOut says whether a brief snapshot does not list a kind.
func leftOut(k kind) bool {
	switch k.resource {
	case "endpointslices", "servicecidrs", "bfdprofiles", "communities":
		return true
	}
	return false
}

// readServiceCIDR reads, for a brief snapshot, the network that each cluster has. Few have others.
func (s *Snapshot) readServiceCIDR(ctx context.Context, c client.Client) error {
	if !s.options.Brief {
		return nil
	}
	var network networkingv1.ServiceCIDR
	list := &networkingv1.ServiceCIDRList{}
	gvk := networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR")
	switch err := c.Get(ctx, client.ObjectKey{Name: defaultServiceCIDR}, &network); {
	case err == nil:
		list.Items = append(list.Items, network)
	case meta.IsNoMatchError(err):
		s.objects.lacks[gvk] = ""
		return nil
	case apierrors.IsForbidden(err):
		s.refuse("servicecidrs")
		s.objects.lacks[gvk] = "cannot list servicecidrs"
		return nil
	case !apierrors.IsNotFound(err):
		return err
	}
	s.objects.add(list)
	return nil
}

// knowsEndpoints says whether it is known where Services serve.
func (s *Snapshot) knowsEndpoints() bool {
	return s.objects.lists[keyOf(&discoveryv1.EndpointSliceList{})] != nil
}

// standIn adds, for a brief snapshot, objects in the place of the profiles and communities that
// peers and advertisements name, so that none of them seems to be missing.
func (s *Snapshot) standIn() error {
	profiles, aliases := map[string]bool{}, map[string]bool{}
	for _, o := range s.routeObjects() {
		switch spec, _, _ := unstructured.NestedMap(o.Object, "spec"); o.GetKind() {
		case metallb.KindPeer:
			if name, _, _ := unstructured.NestedString(spec, "bfdProfile"); name != "" {
				profiles[name] = true
			}
		case metallb.KindBGPAdvertisement:
			names, _, _ := unstructured.NestedStringSlice(spec, "communities")
			for _, name := range names {
				if _, err := lb.ParseCommunity(name); err != nil {
					aliases[name] = true
				}
			}
		}
	}
	var communities []any
	for name := range aliases {
		communities = append(communities, map[string]any{"name": name, "value": "0:0"})
	}
	for _, k := range routeKinds() {
		if !leftOut(k) {
			continue
		}
		var items []runtime.Object
		add := func(name string, spec map[string]any) {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			o.SetGroupVersionKind(k.gvk)
			o.SetNamespace(s.Install.MetalLBNamespace)
			o.SetName(name)
			items = append(items, o)
		}
		switch {
		case k.gvk.Kind == metallb.KindProfile:
			for name := range profiles {
				add(name, map[string]any{})
			}
		case len(communities) > 0:
			add("stands-in", map[string]any{"communities": communities})
		}
		if err := meta.SetList(k.list, items); err != nil {
			return err
		}
		s.objects.add(k.list)
	}
	return nil
}

// routeObjects are the objects about BGP that were read.
func (s *Snapshot) routeObjects() (out []unstructured.Unstructured) {
	for _, k := range routeKinds() {
		if list, ok := s.objects.lists[keyOf(k.list)].(*unstructured.UnstructuredList); ok {
			for _, o := range list.Items {
				if o.GetNamespace() == s.Install.MetalLBNamespace {
					out = append(out, o)
				}
			}
		}
	}
	return out
}

// writtenProblem is what the controller has written on an object about BGP, if that is that it is
// not used as it should be.
func writtenProblem(o *unstructured.Unstructured) (lb.Reason, bool) {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	found, _, _ := unstructured.NestedMap(o.Object, "status")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status) != nil {
		return lb.Reason{}, false
	}
	i := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == controller.ConditionPoolReady && c.Status == metav1.ConditionFalse
	})
	if i < 0 {
		return lb.Reason{}, false
	}
	c := status.Conditions[i]
	if _, known := reasons.All[lb.Code(c.Reason)]; !known {
		return lb.Reason{}, false
	}
	return reasons.All.Rebuilt(lb.Code(c.Reason), c.Message), true
}
