// Package snapshot reads a cluster once and answers the questions of operators: how is
// it, why is a Service not reachable, who has which address, what would happen if. It
// decides with the code of the daemons: the controller's (package controller, which uses
// ipam) and the agents' (package agent/sources, which uses elect).
//
// It writes nothing. It builds wherever kubectl runs, so it imports nothing that needs
// Linux.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	compatmetallb "fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/reasons"
	"fairlead.io/internal/setup"
)

// Options say where to read.
type Options struct {
	REST *rest.Config
	// Config is the configuration of the daemons. If nil, it is read from the pod of
	// the controller.
	Config *config.Configuration
	// MetalLBNamespace is where objects of MetalLB's kinds count. If empty, the pod of
	// the controller says so.
	MetalLBNamespace string
	// KubeVIPMap is the ConfigMap of kube-vip's cloud provider. If empty, the pod of the
	// controller says so.
	KubeVIPMap config.KubeVIPMap
	// KubeVIPBGP is what kube-vip's variables say about BGP. If nil, the pods of agents say so.
	KubeVIPBGP *config.KubeVIPBGP
	// Clouds can say what they would do; without one, that is not predicted.
	Clouds map[config.Backend]Cloud
	// Brief has at most ten lists made: what others report is not read.
	Brief bool
	// Projects reads the objects of kube-dc and kube-ovn, too, if a class has backend ovn:
	// these are seven more lists.
	Projects bool
	// Routes has all objects about BGP read. Otherwise, they are if agents report sessions with
	// routers.
	Routes bool
	// Drained is a node of which it is read which pods a drain leaves.
	Drained string
	// PodNamespace is where the daemons' pods are. If empty, those of all namespaces are
	// read.
	PodNamespace string
}

// Snapshot is a cluster at one time.
type Snapshot struct {
	// At is when it was read.
	At time.Time
	// Unknown says what could not be read, as the end of "unknown: ".
	Unknown []string

	Install Install
	Agents  []v1alpha1.Agent
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	// Events of moves and conflicts. Only a Watcher reads them.
	Events []corev1.Event
	Config *config.Configuration

	Survey *controller.Survey

	objects *objects
	options Options
	refused map[string]string         // resources that could not be listed, and why
	stays   map[client.ObjectKey]bool // pods of the drained node that a drain leaves
	// ballots are made when somebody asks: that takes a while for many Services.
	ballots func() map[netip.Addr]*ballot
	// projects are who has which EIp, made when somebody asks.
	projects func() *projects
	// routed has who announces each address by BGP, made as well when somebody asks.
	routed  func() map[netip.Addr][]announcement
	claimed func() map[netip.Addr][]elect.Claim
}

// kind is one list that is read.
type kind struct {
	resource string // as it is told to users
	gvk      schema.GroupVersionKind
	list     client.ObjectList
	options  []client.ListOption
	// optional kinds need not be installed.
	optional bool
	// unless is the kind for which this one stands in.
	unless schema.GroupVersionKind
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, metallb.AddToScheme, kubedc.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// kinds are all that is listed where neither BGP nor OVN is used, each by one request.
func (o Options) kinds() []kind {
	all := []kind{
		{resource: "services", list: &corev1.ServiceList{}},
		{resource: "nodes", gvk: corev1.SchemeGroupVersion.WithKind("Node"), list: &corev1.NodeList{}},
		{resource: "namespaces", list: &corev1.NamespaceList{}},
		{resource: "endpointslices", list: &discoveryv1.EndpointSliceList{}},
		{resource: "pods", list: &corev1.PodList{}, options: []client.ListOption{client.MatchingLabels{labelName: labelFairlead}, client.InNamespace(o.PodNamespace)}},
		{resource: "pools", gvk: v1alpha1.GroupVersion.WithKind("Pool"), list: &v1alpha1.PoolList{}, optional: true},
		{resource: "agents", gvk: v1alpha1.GroupVersion.WithKind("Agent"), list: &v1alpha1.AgentList{}, optional: true},
		{resource: "ipaddresspools", gvk: metallb.GroupVersion.WithKind("IPAddressPool"), list: &metallb.IPAddressPoolList{}, optional: true},
		{resource: "l2advertisements", gvk: metallb.GroupVersion.WithKind("L2Advertisement"), list: &metallb.L2AdvertisementList{}, optional: true},
		{resource: "servicecidrs", gvk: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), list: &networkingv1.ServiceCIDRList{}, optional: true},
	}
	if o.Brief {
		all = slices.DeleteFunc(all, leftOut)
	}
	return all
}

// routeKinds are those about BGP, of which few clusters have objects.
func routeKinds() (out []kind) {
	for _, k := range compatmetallb.BGPKinds() {
		list, ok := k.List().(client.ObjectList)
		if !ok {
			continue // never: it is a list
		}
		resource, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
		out = append(out, kind{resource: resource.Resource, gvk: k.GroupVersionKind, list: list, optional: true, unless: k.Unless})
	}
	return out
}

// readRoutes lists the kinds about BGP.
func (s *Snapshot) readRoutes(ctx context.Context, c client.Client) error {
	reports := func(a v1alpha1.Agent) bool { return len(a.Status.Peers)+len(a.Status.Refused) > 0 }
	if !s.Config.Uses(compatmetallb.Name) || !s.options.Routes && !slices.ContainsFunc(s.Agents, reports) {
		return nil
	}
	all := routeKinds()
	if s.options.Brief {
		all = slices.DeleteFunc(all, leftOut)
	}
	older := func(k kind) bool { return !k.unless.Empty() }
	if err := s.list(ctx, c, slices.DeleteFunc(slices.Clone(all), older)); err != nil {
		return err
	}
	if err := s.list(ctx, c, slices.DeleteFunc(all, func(k kind) bool {
		why, lacks := s.objects.lacks[k.unless]
		return !older(k) || !lacks || why != ""
	})); err != nil || !s.options.Brief {
		return err
	}
	return s.standIn()
}

// Read reads the cluster. It fails only if the API server cannot be reached: what may
// not be read is Unknown.
func Read(ctx context.Context, o Options) (*Snapshot, error) {
	sch, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(o.REST, client.Options{Scheme: sch})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	s := &Snapshot{At: time.Now(), objects: newObjects(), options: o, refused: map[string]string{}}
	if err := s.list(ctx, c, o.kinds()); err != nil {
		return nil, err
	}
	s.take()
	if err := s.readServiceCIDR(ctx, c); err != nil {
		return nil, err
	}
	if err := s.readInstall(ctx, c); err != nil {
		return nil, err
	}
	if err := s.readProjects(ctx, c); err != nil {
		return nil, err
	}
	if err := s.readStays(ctx, c); err != nil {
		return nil, err
	}
	if s.cannot("services") {
		return s, nil
	}
	if err := s.readRoutes(ctx, c); err != nil {
		return nil, err
	}
	return s, s.decide(ctx)
}

// Of returns the snapshot of a cluster that has nothing but these objects.
func Of(at time.Time, c *config.Configuration, all ...client.Object) (*Snapshot, error) {
	return made(at, c, "", all...)
}

// made is Of, with the namespace of MetalLB's objects; "" is the default.
func made(at time.Time, c *config.Configuration, metallbNamespace string, all ...client.Object) (*Snapshot, error) {
	s := &Snapshot{At: at, Config: c, objects: newObjects(), options: Options{Projects: true}, refused: map[string]string{}}
	s.Install = Install{ConfigFrom: "--config", KeepConnections: defaultKeep, MetalLBNamespace: cmp.Or(metallbNamespace, defaultMetalLBNamespace), KubeVIPMap: config.KubeVIPMapFrom(func(string) string { return "" })}
	for _, k := range slices.Concat((Options{}).kinds(), projectKinds(), routeKinds()) {
		if k.unless.Empty() {
			s.objects.add(k.list)
		}
	}
	s.objects.add(&corev1.ConfigMapList{})
	var err error
	if s.objects, err = s.objects.with(all...); err != nil {
		return nil, err
	}
	s.take()
	return s, s.decide(still)
}

// take takes over what is read most.
func (s *Snapshot) take() {
	var pods corev1.PodList
	var agents v1alpha1.AgentList
	_, _ = s.objects.List(still, &pods), s.objects.List(still, &agents)
	s.Pods, s.Agents, s.Nodes = pods.Items, agents.Items, s.objects.nodes()
}

// decide decides about what was read.
func (s *Snapshot) decide(ctx context.Context) (err error) {
	if s.Survey, err = s.examine(ctx, s.objects, nil); err != nil {
		return err
	}
	s.hold()
	return nil
}

// hold prepares the elections of what was decided.
func (s *Snapshot) hold() {
	s.ballots = sync.OnceValue(func() map[netip.Addr]*ballot { return s.ballotsOf(s.objects, s.Survey, nil) })
	s.projects = sync.OnceValue(func() *projects { return s.projectsOf(s.objects) })
	s.routed, s.claimed = sync.OnceValue(s.routedBy), sync.OnceValue(s.claims)
}

// list reads all kinds at the same time.
func (s *Snapshot) list(ctx context.Context, c client.Client, all []kind) error {
	var running sync.WaitGroup
	errs := make([]error, len(all))
	for i, k := range all {
		running.Go(func() { errs[i] = c.List(ctx, k.list, k.options...) })
	}
	running.Wait()
	var failed []error
	for i, k := range all {
		err := errs[i]
		switch {
		case err == nil:
			s.objects.add(k.list)
		case k.optional && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			s.objects.lacks[k.gvk] = ""
		case apierrors.IsForbidden(err):
			s.refuse(k.resource)
			s.objects.lacks[k.gvk] = "cannot list " + k.resource
		default:
			failed = append(failed, fmt.Errorf("list %s: %w", k.resource, err))
		}
	}
	return errors.Join(failed...)
}

// examine decides about these objects as a controller does.
func (s *Snapshot) examine(ctx context.Context, all *objects, facts func(*controller.Facts)) (*controller.Survey, error) {
	o := controller.Options{Config: s.Config, Reasons: reasons.All}
	setup.Add(&o, setup.Names{MetalLBNamespace: s.Install.MetalLBNamespace, KubeVIPMap: s.Install.KubeVIPMap})
	addOVN(&o)
	f := controller.Facts{Reader: all, Lacks: all.hasNot}
	if facts != nil {
		facts(&f)
	}
	survey, err := controller.Examine(ctx, o, f)
	if err != nil {
		return nil, fmt.Errorf("decide about Services: %w", err)
	}
	return survey, nil
}

// Service returns what is known of a Service of type LoadBalancer, or nil.
func (s *Snapshot) Service(key types.NamespacedName) *controller.Surveyed {
	if s.Survey == nil {
		return nil
	}
	for i := range s.Survey.Services {
		if s.Survey.Services[i].Key == key {
			return &s.Survey.Services[i]
		}
	}
	return nil
}

// Object returns a Service of any type, or nil.
func (s *Snapshot) Object(key types.NamespacedName) *corev1.Service {
	var out corev1.Service
	if err := s.objects.Get(still, key, &out); err != nil {
		return nil
	}
	return &out
}

// Agent returns the report of a node's agent, or nil.
func (s *Snapshot) Agent(node string) *v1alpha1.Agent {
	if i := slices.IndexFunc(s.Agents, func(a v1alpha1.Agent) bool { return a.Name == node }); i >= 0 {
		return &s.Agents[i]
	}
	return nil
}

// ago is how long before the snapshot something was, in the units of kubectl.
func (s *Snapshot) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := s.At.Sub(t).Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return strings.TrimSuffix(max(d, 0).String(), "m0s")
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
