package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	backendovn "fairlead.io/internal/backend/ovn"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/placement"
	"fairlead.io/internal/prose"
)

// projectKinds are those of kube-dc and kube-ovn that decide about Services of backend
// ovn. The last two may be missing where the others are.
func projectKinds() []kind {
	return []kind{
		{resource: "eips", gvk: kubedc.GroupVersion.WithKind("EIp"), list: &kubedc.EIpList{}, optional: true},
		{resource: "fips", gvk: kubedc.GroupVersion.WithKind("FIp"), list: &kubedc.FIpList{}, optional: true},
		{resource: "ovn-eips", gvk: kubeovn.GroupVersion.WithKind("OvnEip"), list: &kubeovn.OvnEipList{}, optional: true},
		{resource: "subnets", gvk: kubeovn.GroupVersion.WithKind("Subnet"), list: &kubeovn.SubnetList{}, optional: true},
		{resource: "vpcs", gvk: kubeovn.GroupVersion.WithKind("Vpc"), list: &kubeovn.VpcList{}, optional: true},
		{resource: "projects", gvk: kubedc.GroupVersion.WithKind("Project"), list: &kubedc.ProjectList{}, optional: true},
		{resource: "ovn-dnat-rules", gvk: kubeovn.GroupVersion.WithKind("OvnDnatRule"), list: &kubeovn.OvnDnatRuleList{}, optional: true},
	}
}

// servesOVN says whether any class has backend ovn.
func servesOVN(c *config.Configuration) bool { return slices.Contains(c.Backends(), config.OVN) }

// hasEIps says whether Services of a class have addresses of EIps.
func hasEIps(c *config.Class) bool { return c != nil && c.Backend == config.OVN && len(c.Pools) == 0 }

// addOVN lets Services of backend ovn be decided. It is never run: nothing is asked of
// OVN's database.
func addOVN(o *controller.Options) {
	if !servesOVN(o.Config) {
		return
	}
	o.Backends[config.OVN] = controller.Backend{Backend: backendovn.New(backendovn.Options{Dialect: format.Format}), Plans: true}
	o.Dialects = append(o.Dialects, format.Dialect{})
}

// projects are the objects of kube-dc and kube-ovn in the book by which the controller
// decides who has which EIp.
type projects struct {
	book *eip.Book
	// lacks is why nothing is known; "" if it is. unread: the objects may be there.
	lacks  string
	unread bool
}

// errNotAsked is why it is not known which rows OVN's database has.
var errNotAsked = errors.New("the northbound database was not asked")

// readProjects reads what decides about Services of backend ovn, if there are any.
func (s *Snapshot) readProjects(ctx context.Context, c client.Client) error {
	if !s.options.Projects || !servesOVN(s.Config) {
		return nil
	}
	return s.list(ctx, c, projectKinds())
}

// projectsOf puts objects into a book.
func (s *Snapshot) projectsOf(all *objects) *projects {
	p := &projects{book: eip.NewBook(s.Config.OVN.EIps != config.UseEIps)}
	for i, k := range projectKinds() {
		why, lacks := all.hasNot(k.gvk)
		p.unread = p.unread || lacks && why != ""
		if lacks && i < 5 && p.lacks == "" {
			if p.lacks = why; why == "" {
				p.lacks = "the API server has no kind " + k.gvk.Kind
			}
		}
	}
	if p.lacks == "" && !s.options.Projects {
		p.unread = true
		p.lacks = "the objects of kube-dc and kube-ovn were not read"
	}
	var namespaces corev1.NamespaceList
	var services corev1.ServiceList
	_, _ = all.List(still, &namespaces), all.List(still, &services) // they cannot fail
	for i := range namespaces.Items {
		p.book.Namespace(namespaces.Items[i].Name, namespaces.Items[i].Annotations)
	}
	p.network(all)
	claim := placement.Claims(s.Config)
	for i := range services.Items {
		value := kubeapi.Service(&services.Items[i])
		if c, is := claim(value); is && !value.Deleting {
			p.book.Service(value.Key, value.UID, &c)
		} else {
			p.book.Service(value.Key, value.UID, nil, value.Published()...)
		}
	}
	return p
}

// network puts the objects of kube-dc and kube-ovn into the book.
func (p *projects) network(all *objects) {
	var eips kubedc.EIpList
	var fips kubedc.FIpList
	var owned kubeovn.OvnEipList
	var subnets kubeovn.SubnetList
	var vpcs kubeovn.VpcList
	var found kubedc.ProjectList
	var rules kubeovn.OvnDnatRuleList
	for _, list := range []client.ObjectList{&eips, &fips, &owned, &subnets, &vpcs, &found, &rules} {
		_ = all.List(still, list) // it cannot fail
	}
	for i := range vpcs.Items {
		p.book.Vpc(vpcs.Items[i].Name, &vpcs.Items[i])
	}
	for i := range subnets.Items {
		p.book.Subnet(subnets.Items[i].Name, &subnets.Items[i])
	}
	for i := range found.Items {
		p.book.Project(client.ObjectKeyFromObject(&found.Items[i]), &found.Items[i])
	}
	for i := range owned.Items {
		p.book.OvnEip(owned.Items[i].Name, &owned.Items[i])
	}
	for i := range rules.Items {
		p.book.Rule(rules.Items[i].Name, &rules.Items[i])
	}
	for i := range fips.Items {
		p.book.FIp(client.ObjectKeyFromObject(&fips.Items[i]), &fips.Items[i])
	}
	for i := range eips.Items {
		p.book.EIp(client.ObjectKeyFromObject(&eips.Items[i]), &eips.Items[i])
	}
}

// binding is the EIp that a Service has or gets.
func (s *Snapshot) binding(p *projects, key types.NamespacedName) eip.Binding {
	unread := func(netip.Addr, []lb.Port) ([]eip.Row, error) { return nil, errNotAsked }
	return p.book.LookAtService(key, unread, s.At).Service(p.book.UID(key))
}

// Binding says which addresses a Service of a class with EIps has or gets, and why not.
// known is false for other Services, and if not all objects could be read.
func (s *Snapshot) Binding(key types.NamespacedName) (b eip.Binding, known bool) {
	of := s.Service(key)
	if of == nil {
		return b, false
	}
	return s.bindingOf(of)
}

func (s *Snapshot) bindingOf(of *controller.Surveyed) (b eip.Binding, known bool) {
	if !hasEIps(of.Class) || s.projects().lacks != "" {
		return b, false
	}
	return s.binding(s.projects(), of.Key), true
}

// ReleasedEIps are the EIps that the controller deletes when no load balancer in OVN has
// their address, as namespace/name, with the address.
func (s *Snapshot) ReleasedEIps() map[string]string {
	out := map[string]string{}
	none := func(netip.Addr, []lb.Port) ([]eip.Row, error) { return nil, nil }
	for _, key := range s.projects().book.EIps("") {
		p, _ := s.projects().book.LookAtEIp(key, none, s.At).EIp(key.Name)
		if slices.ContainsFunc(p.Steps, func(step lb.Step) bool { return step.Verb == lb.VerbDelete && step.Kind == "EIp" }) {
			out[key.String()] = s.projects().book.GetEIp(key).Status.IPAddress
		}
	}
	return out
}

// stepProject says whether the namespace of a Service has a router.
func (s *Snapshot) stepProject(of *controller.Surveyed) Step {
	step := Step{Name: "project", Mark: Passed}
	namespace := of.Key.Namespace
	p := s.projects()
	place, ok, problem := p.book.Place(namespace)
	switch {
	case ok:
		step.Fact = "router " + place.Router
		if len(place.Switches) > 0 {
			step.Fact += ", switches " + prose.Few(place.Switches)
		}
		return step
	case s.cannot("namespaces"):
		return unclear(step.Name, s.unread("namespaces"))
	case p.lacks != "" && (p.unread || hasEIps(of.Class)): // pools need nothing of kube-dc and kube-ovn
		step.Mark, step.Fact = Unclear, "unknown: "+p.lacks
		return step
	case problem == "" && hasEIps(of.Class):
		problem = "no Vpc and no Project has it"
	case problem == "":
		problem = "it has no annotation " + format.AnnotationRouter + ", and no Vpc and no Project has it"
	}
	reason := eip.Reasons.With(eip.NotAProject, namespace, problem)
	step.Mark, step.Reason, step.Fact = Failed, string(reason.Code), reason.Text
	step.Fix = []string{"kubectl get vpcs.kubeovn.io", eip.Reasons[eip.NotAProject].Do}
	if !hasEIps(of.Class) {
		step.Fix[0] = "kubectl annotate namespace " + namespace + " " + format.AnnotationRouter + "=ROUTER"
	}
	return step
}

// stepRouter says who makes the address of a Service of backend ovn reachable.
func (s *Snapshot) stepRouter(of *controller.Surveyed) Step {
	router := "OVN's router"
	if place, ok, _ := s.projects().book.Place(of.Key.Namespace); ok {
		router += " " + place.Router
	}
	return Step{Name: "reachable", Mark: Passed, Fact: router + " answers for the address and leads traffic to the endpoints; kubectl fairlead does not check that"}
}

// ovnSection is the part of the status about backend ovn.
func ovnSection(s *Snapshot, b config.Backend, of []ServiceState) Section {
	out := countServices(s, b, of)
	endpoints := strings.Join(s.Config.OVN.Northbound, ", ")
	if endpoints == "" {
		endpoints = "as $" + config.EnvNorthbound + " of the controller says, else that of kube-ovn"
	}
	out.Facts = append(out.Facts, "northbound database: "+endpoints)
	if slices.ContainsFunc(s.Config.Classes, func(c config.Class) bool { return hasEIps(&c) }) {
		by := "Fairlead"
		if s.Config.OVN.EIps == config.UseEIps {
			by = "kube-dc-manager"
		}
		out.Facts = append(out.Facts, "EIps served by "+by)
	}
	waiting := 0
	for _, state := range of {
		if state.Reason == string(backendovn.NorthboundUnavailable) {
			waiting++
		}
	}
	if waiting > 0 {
		out.Problems = append(out.Problems, Problem{About: "ovn", Reason: string(backendovn.NorthboundUnavailable),
			Message: fmt.Sprintf("The northbound database does not answer: %d Services wait for it.", waiting), Next: "kubectl get pods -n kube-system -l app=ovn-central"})
	}
	return out
}

// compareBindings adds which addresses of EIps Services would have after a change.
func (s *Snapshot) compareBindings(p *Plan, all *objects, after *controller.Survey) {
	before, then := s.projects(), s.projectsOf(all)
	if then.lacks != "" {
		return
	}
	for i := range after.Services {
		of := &after.Services[i]
		if !hasEIps(of.Class) || of.Ignored != "" {
			continue
		}
		var was eip.Binding // none if the Service is new
		if before.book.UID(of.Key) != "" {
			was = s.binding(before, of.Key)
		}
		is := s.binding(then, of.Key)
		if c, differs := bindingChange(of.Key.String(), was, is); differs {
			p.Services = append(p.Services, c)
		}
	}
}

// bindingChange is what another EIp means for a Service.
func bindingChange(service string, was, is eip.Binding) (c ServiceChange, differs bool) {
	c = ServiceChange{Service: service, Before: prose.Texts(was.Addresses), After: prose.Texts(is.Addresses)}
	code := func(b eip.Binding) lb.Code {
		if b.Reason == nil {
			return ""
		}
		return b.Reason.Code
	}
	if is.Reason != nil {
		c.Reason, c.Message = string(is.Reason.Code), is.Reason.Text
	}
	creates := func(b eip.Binding) bool { return !b.Plan.Empty() }
	switch {
	case slices.Equal(was.Addresses, is.Addresses) && code(was) == code(is) && creates(was) == creates(is):
		return c, false
	case slices.Equal(was.Addresses, is.Addresses) && len(is.Addresses) > 0:
		c.Cost = costReason
	case len(is.Addresses) == 0 && is.Reason == nil && len(was.Addresses) == 0:
		c.After, c.Cost = []string{"an address that kube-ovn allocates"}, costFirst
	case len(is.Addresses) == 0 && len(was.Addresses) == 0:
		c.Cost = costNone
	case len(is.Addresses) == 0:
		c.Cost = costLoses
	case len(was.Addresses) == 0:
		c.Cost = costFirst
	default:
		c.Cost = costRenumber
	}
	return c, true
}
