package kubedc

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/prose"
)

// Place is where the Services of a namespace are served.
type Place struct {
	// Router and Switches are names in OVN's northbound database. Nobody has looked
	// whether they are there.
	Router   string
	Switches []string // the namespace's own one first, each once

	// Vpc is the router's object; "" if there is none.
	Vpc string
	// Subnet is the external subnet in which the router has its own address, the
	// default one of the project; "" if that is not known.
	Subnet string
	// NetworkType is what the project asks for its traffic to the outside; "" if there is
	// no project.
	NetworkType string
}

// Gateway is the name of the OvnEip, and of the router's port, in an external subnet.
func (p Place) Gateway(subnet string) string { return p.Vpc + "-" + subnet }

// Network is what the objects of kube-dc and kube-ovn say. Any of them may be missing,
// or not be readable.
type Network struct {
	Vpcs     []*kubeovn.Vpc
	Subnets  []*kubeovn.Subnet
	OvnEips  []*kubeovn.OvnEip // those that are the gateways of routers, at least
	Projects []*api.Project
	EIps     []*api.EIp // those named DefaultGateway, at least
}

// Locate returns where the Services of a namespace are served: by its annotations, else
// by the Vpc that lists it, else by the Project that it belongs to. If there is none of
// these, ok is false. problem is what is wrong with the annotations; then there is no
// place either.
func Locate(namespace *metav1.ObjectMeta, n Network) (p Place, ok bool, problem string) {
	if p, ok, problem = annotated(namespace.Annotations); ok || problem != "" {
		return p, ok, problem
	}
	project := oldest(n.Projects, func(o *api.Project) bool { return o.Status.Namespace == namespace.Name })
	vpc := oldest(n.Vpcs, func(o *kubeovn.Vpc) bool { return slices.Contains(o.Spec.Namespaces, namespace.Name) })
	if vpc == nil && project != nil { // kube-dc names it after the namespace
		vpc = oldest(n.Vpcs, func(o *kubeovn.Vpc) bool { return o.Name == namespace.Name })
	}
	if project != nil {
		p.NetworkType = project.Spec.EgressNetworkType
	}
	own := namespace.Name + "-default"
	switch {
	case vpc != nil:
		p.Router, p.Vpc = vpc.Status.Router, vpc.Name
		if p.Router == "" {
			p.Router = vpc.Name
		}
		p.Switches = switches(own, vpc, n.Subnets)
	case project != nil:
		p.Router, p.Vpc, p.Switches = namespace.Name, namespace.Name, []string{own}
	default:
		return Place{}, false, ""
	}
	p.Subnet = n.defaultSubnet(namespace.Name, p)
	return p, true, ""
}

// maxSwitches is how many switches an annotation may name.
const maxSwitches = 64

func annotated(annotations map[string]string) (p Place, ok bool, problem string) {
	router, named := annotations[AnnotationRouter]
	list, listed := annotations[AnnotationSwitches]
	p.Router = strings.TrimSpace(router)
	switch {
	case !named && !listed:
		return Place{}, false, ""
	case p.Router == "" && named:
		return Place{}, false, "Annotation " + AnnotationRouter + " of the namespace is empty"
	case !named:
		return Place{}, false, "The namespace has annotation " + AnnotationSwitches + ", but not " + AnnotationRouter
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(p.Switches, name) {
			p.Switches = append(p.Switches, name)
		}
	}
	if len(p.Switches) > maxSwitches {
		return Place{}, false, "Annotation " + AnnotationSwitches + " of the namespace names too many switches: " + prose.Quote(list)
	}
	return p, true, ""
}

// switches are those whose pods are behind the router: the namespace's own one, and the
// other overlay networks of the Vpc. External networks are none of them.
func switches(own string, vpc *kubeovn.Vpc, subnets []*kubeovn.Subnet) []string {
	var others []string
	for _, s := range subnets {
		if s.Name != own && slices.Contains(vpc.Status.Subnets, s.Name) && overlay(s) {
			others = append(others, s.Name)
		}
	}
	slices.Sort(others)
	return append([]string{own}, slices.Compact(others)...)
}

func overlay(s *kubeovn.Subnet) bool {
	provider := s.Spec.Provider
	return s.Spec.Vlan == "" && (provider == "" || provider == "ovn" || strings.HasSuffix(provider, ".ovn"))
}

// defaultSubnet is the external subnet of the OvnEip that the namespace's default gateway
// names, if that is a port of the router: tenants may be able to write that EIp. If there is
// no such EIp, it is the one external subnet in which the router has a port; of several, one
// of the project's type.
func (n Network) defaultSubnet(namespace string, p Place) string {
	gateway := oldest(n.EIps, func(e *api.EIp) bool {
		return e.Namespace == namespace && e.Name == DefaultGateway && e.Spec.ChildRef != ""
	})
	if gateway != nil {
		if e := oldest(n.OvnEips, func(e *kubeovn.OvnEip) bool {
			return e.Name == gateway.Spec.ChildRef && e.Name == p.Gateway(e.Spec.ExternalSubnet)
		}); e != nil {
			return e.Spec.ExternalSubnet
		}
	}
	var found, ofType []string
	for _, s := range n.Subnets {
		kind, external := s.Labels[LabelNetworkType]
		if !external || !slices.ContainsFunc(n.OvnEips, func(e *kubeovn.OvnEip) bool { return e.Name == p.Gateway(s.Name) && e.Spec.ExternalSubnet == s.Name }) {
			continue
		}
		found = append(found, s.Name)
		if kind == p.NetworkType {
			ofType = append(ofType, s.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0]
	case len(ofType) == 1:
		return ofType[0]
	}
	return ""
}

// oldest returns the oldest of the objects that match, by creation, then by name; nil if
// none does. Two that say the same of one namespace are somebody's mistake, and all of us
// must mean the same one.
func oldest[T metav1.Object](objects []T, match func(T) bool) (found T) {
	first := true
	for _, o := range objects {
		if !match(o) {
			continue
		}
		if first || older(o, found) {
			found, first = o, false
		}
	}
	return found
}

func older(a, b metav1.Object) bool {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.GetNamespace()+"/"+a.GetName() < b.GetNamespace()+"/"+b.GetName()
}
