package projects

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat"
)

// The kinds that are followed. Without the first ones nothing can be decided.
var (
	kindEIp     = api.GroupVersion.WithKind("EIp")
	kindFIp     = api.GroupVersion.WithKind("FIp")
	kindProject = api.GroupVersion.WithKind("Project")
	kindOvnEip  = kubeovn.GroupVersion.WithKind("OvnEip")
	kindSubnet  = kubeovn.GroupVersion.WithKind("Subnet")
	kindVpc     = kubeovn.GroupVersion.WithKind("Vpc")
	kindRule    = kubeovn.GroupVersion.WithKind("OvnDnatRule")

	// optional are kinds that may be missing.
	optional = []schema.GroupVersionKind{kindProject, kindRule}

	kinds = []compat.Kind{
		{GroupVersionKind: kindEIp, Object: &api.EIp{}, List: func() runtime.Object { return &api.EIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindFIp, Object: &api.FIp{}, List: func() runtime.Object { return &api.FIpList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindOvnEip, Object: &kubeovn.OvnEip{}, Resource: "ovn-eips", List: func() runtime.Object { return &kubeovn.OvnEipList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindSubnet, Object: &kubeovn.Subnet{}, List: func() runtime.Object { return &kubeovn.SubnetList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindVpc, Object: &kubeovn.Vpc{}, List: func() runtime.Object { return &kubeovn.VpcList{} }, Without: "Services of kube-dc's projects get no addresses"},
		{GroupVersionKind: kindProject, Object: &api.Project{}, List: func() runtime.Object { return &api.ProjectList{} }, Without: "only Vpcs say which namespaces are projects"},
		{GroupVersionKind: kindRule, Object: &kubeovn.OvnDnatRule{}, Resource: "ovn-dnat-rules", List: func() runtime.Object { return &kubeovn.OvnDnatRuleList{} }, Without: "ports that they have are only seen in OVN's database"},
	}
)

// newMapper knows the kinds that are read and written here. One that asks the API server
// would wait for it, whatever ends meanwhile: it has no context.
func newMapper() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		corev1.SchemeGroupVersion.WithKind("Service"):            meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("Namespace"):          meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Endpoints"):          meta.RESTScopeNamespace,
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"): meta.RESTScopeNamespace,
	} {
		add(out, kind, "", scope)
	}
	for _, k := range kinds {
		scope := meta.RESTScopeNamespace
		if k.Group == kubeovn.GroupVersion.Group {
			scope = meta.RESTScopeRoot
		}
		add(out, k.GroupVersionKind, k.Resource, scope)
	}
	return out
}

// add adds a kind, whose resource has the usual name if it is "".
func add(to *meta.DefaultRESTMapper, kind schema.GroupVersionKind, resource string, scope meta.RESTScope) {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	plural.Resource = cmp.Or(resource, plural.Resource)
	to.AddSpecific(kind, plural, singular, scope)
}
