package placement

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/projects"
)

// Only Services of the backend's classes without pools have EIps.
func TestClaim(t *testing.T) {
	p := newPlacer(configuration, nil)
	for name, c := range map[string]struct {
		change func(*lb.Service)
		none   bool
		want   eip.Claim
	}{
		"no class":           {change: func(*lb.Service) {}},
		"pools":              {change: func(s *lb.Service) { s.Class = "pooled" }, none: true},
		"another backend":    {change: func(s *lb.Service) { s.Class = "metallb" }, none: true},
		"an unknown class":   {change: func(s *lb.Service) { s.Class = "moon" }, none: true},
		"no load balancer":   {change: func(s *lb.Service) { s.LoadBalancer = false }, none: true},
		"an EIp":             {change: func(s *lb.Service) { s.Annotations[kubedc.AnnotationEIp] = "web" }, want: eip.Claim{Wish: kubedc.Wish{EIp: "web"}}},
		"an address":         {change: func(s *lb.Service) { s.LoadBalancerIP = "192.0.2.1" }, want: eip.Claim{Wish: kubedc.Wish{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}},
		"what is no network": {change: func(s *lb.Service) { s.Annotations[kubedc.AnnotationNetworkType] = "moon" }, want: eip.Claim{Invalid: true}},
		"what is no address": {change: func(s *lb.Service) { s.LoadBalancerIP = "moon" }, want: eip.Claim{Invalid: true}},
	} {
		s := service("").Service
		c.change(&s)
		got, ok := p.claim(&s)
		if ok == c.none {
			t.Errorf("%s: claimed %v", name, ok)
		}
		if got.Service, got.Wish.Ports = nil, nil; got.Invalid {
			got.Wish = kubedc.Wish{} // nobody reads it
		}
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHasEIps(t *testing.T) {
	pooled := &config.Configuration{Classes: configuration.Classes[1:]}
	if !hasEIps(configuration) || hasEIps(pooled) || hasEIps(&config.Configuration{}) {
		t.Error("EIps are for classes of the backend that have no pools")
	}
}

// Rows of another controller are taken over if the status has all of the addresses.
func TestPublishes(t *testing.T) {
	for _, c := range []struct {
		has, publishes string
		want           bool
	}{
		{"", "", false},
		{"", "192.0.2.1", false},
		{"192.0.2.1", "", false},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.1 2001:db8::1", true},
		{"192.0.2.1 2001:db8::1", "192.0.2.1", false},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "moon", false},
	} {
		s := &lb.Service{}
		for _, text := range strings.Fields(c.publishes) {
			s.Ingress = append(s.Ingress, lb.Ingress{IP: text})
		}
		var has []netip.Addr
		for _, text := range strings.Fields(c.has) {
			has = append(has, netip.MustParseAddr(text))
		}
		if got := publishes(s, has); got != c.want {
			t.Errorf("has %q, publishes %q: %v", c.has, c.publishes, got)
		}
	}
}

// With pools, a namespace says where its Services are served, or its Vpc or Project does.
// What is wrong with it is said, and nothing else is done.
func TestPlaceByNamespace(t *testing.T) {
	many := strings.Repeat("s%d,", 65)
	for i := range 65 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		change      func(*world)
		want        ovn.Place
		elsewhere   string
	}{
		"annotated":                 {annotations: map[string]string{kubedc.AnnotationRouter: "lr0", kubedc.AnnotationSwitches: "ls0, ls1"}, want: ovn.Place{Router: "lr0", Switches: []string{"ls0", "ls1"}}},
		"a Vpc":                     {change: func(w *world) { w.vpc("other", "") }, want: ovn.Place{Router: "other", Switches: []string{"apart-default"}}},
		"a Vpc's router":            {change: func(w *world) { w.vpc("other", "lr7") }, want: ovn.Place{Router: "lr7", Switches: []string{"apart-default"}}},
		"annotations before a Vpc":  {annotations: map[string]string{kubedc.AnnotationRouter: "lr0"}, change: func(w *world) { w.vpc("other", "lr7") }, want: ovn.Place{Router: "lr0"}},
		"nothing":                   {elsewhere: "it has no annotation fairlead.io/ovn-router, and no Vpc and no Project has it"},
		"an empty router":           {annotations: map[string]string{kubedc.AnnotationRouter: " "}, elsewhere: "Annotation fairlead.io/ovn-router of the namespace is empty"},
		"an empty router and a Vpc": {annotations: map[string]string{kubedc.AnnotationRouter: ""}, change: func(w *world) { w.vpc("other", "lr7") }, elsewhere: "Annotation fairlead.io/ovn-router of the namespace is empty"},
		"switches alone":            {annotations: map[string]string{kubedc.AnnotationSwitches: "ls0"}, elsewhere: "The namespace has annotation fairlead.io/ovn-switches, but not fairlead.io/ovn-router"},
		"too many switches":         {annotations: map[string]string{kubedc.AnnotationRouter: "lr0", kubedc.AnnotationSwitches: many}, elsewhere: "names too many switches"},
		"a Project without a Vpc": {change: func(w *world) {
			w.book.Project(types.NamespacedName{Namespace: "org", Name: "apart"}, &api.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "org", Name: "apart"}, Status: api.ProjectStatus{Namespace: "apart"}})
		}, want: ovn.Place{Router: "apart", Switches: []string{"apart-default"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.book.Namespace("apart", c.annotations)
			if c.change != nil {
				c.change(w)
			}
			s := service("")
			s.Service.Class, s.Service.Key.Namespace = "pooled", "apart"
			got := w.places(s)
			if c.elsewhere != "" {
				if got.Elsewhere == nil || got.Elsewhere.Code != eip.NotAProject || !strings.Contains(got.Elsewhere.Text, c.elsewhere) || got.Router != "" {
					t.Errorf("%+v", got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("place (-want +got):\n%s", diff)
			}
			if len(w.did) > 0 || w.routed > 0 {
				t.Errorf("wrote %v", w.did)
			}
		})
	}
}

// vpc makes one that has namespace apart.
func (w *world) vpc(name, router string) {
	w.book.Vpc(name, &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubeovn.VpcSpec{Namespaces: []string{"apart"}}, Status: kubeovn.VpcStatus{Router: router}})
}

// The address that the status publishes may be from another controller.
func TestPooledServiceIsTakenOver(t *testing.T) {
	w := newWorld(t, nil)
	s := service("")
	s.Service.Class, s.Verdict.Addresses = "pooled", []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	if w.places(s).TakeOver {
		t.Error("nothing is published")
	}
	s.Service.Ingress = []lb.Ingress{{IP: "192.0.2.1"}}
	if !w.places(s).TakeOver {
		t.Error("the address is published")
	}
}

// While objects cannot be read, everything stays as it is. What we may not read never comes.
func TestObjectsThatCannotBeRead(t *testing.T) {
	for _, class := range []string{"", "pooled"} {
		w := newWorld(t, nil)
		s := service("")
		s.Service.Class = class
		w.unread = projects.ErrUnread
		if got := w.places(s); !got.Unknown || got.Again <= 0 || got.Elsewhere != nil {
			t.Errorf("class %q, not read yet: %+v", class, got)
		}
		w.unread = fmt.Errorf("%w: Vpcs: forbidden", projects.ErrLacking)
		if got := w.places(s); got.Unknown || got.Elsewhere == nil || !strings.Contains(got.Elsewhere.Text, "Vpcs: forbidden") {
			t.Errorf("class %q, not to be read: %+v", class, got)
		}
		w.unread = errors.New("broken")
		if _, err := w.Place(t.Context(), s); err == nil || len(w.did) > 0 {
			t.Errorf("class %q: %v, did %v", class, err, w.did)
		}
	}
}

// A Service of a project has the addresses of its EIp, or gets an EIp.
func TestPlaceByProject(t *testing.T) {
	w := newWorld(t, nil)
	w.own("public", "ext-public", "168.119.17.52")
	got := w.places(service("public"))
	if got.Router != namespace || got.Gateway != "shalb-dev-ext-public" || fmt.Sprint(got.Addresses) != "[168.119.17.52]" || got.TakeOver || got.Waits != nil || len(w.did) > 0 {
		t.Errorf("an EIp: %+v, did %v", got, w.did)
	}
	s := service("public")
	s.Service.Ingress = []lb.Ingress{{IP: "168.119.17.52"}}
	if !w.places(s).TakeOver {
		t.Error("it publishes the address of the EIp")
	}
	if got := w.places(service("none")); got.Waits == nil || got.Waits.Code != eip.EIpMissing || len(got.Addresses) > 0 {
		t.Errorf("no such EIp: %+v", got)
	}
	s = service("public")
	invalid := lb.InvalidRequest.With("moon")
	s.Request.Invalid = &invalid
	if got := w.places(s); got.Waits == nil || got.Waits.Code != invalid.Code {
		t.Errorf("what cannot be understood: %+v", got)
	}
	s = service("public")
	s.Service.Annotations["service.nlb.kube-dc.com/autodelete"] = "true"
	if got := w.places(s); len(got.Tell) != 1 {
		t.Errorf("tells %v", got.Tell)
	}

	s = service("")
	s.DryRun = true
	if got := w.places(s); len(got.Plan.Steps) != 1 || len(w.did) > 0 {
		t.Errorf("dry run: plan %v, did %v", got.Plan, w.did)
	}
	s.DryRun = false
	if w.places(s); len(w.did) != 1 || !strings.HasPrefix(w.did[0], "create EIp shalb-dev/slb-web-") {
		t.Errorf("an EIp of its own: did %v", w.did)
	}
	w.fails = errors.New("no API server")
	if _, err := w.Place(t.Context(), s); !errors.Is(err, w.fails) {
		t.Errorf("a write that fails: %v", err)
	}
	w.fails, s.Service.Key.Namespace = nil, "kube-system"
	if got := w.places(s); got.Elsewhere == nil || got.Elsewhere.Code != eip.NotAProject {
		t.Errorf("another namespace: %+v", got)
	}
}

// Objects that make no sense stop nobody.
func TestBrokenObjects(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a Subnet without a network":        func(w *world) { w.subnet("bad", kubedc.Public, "moon", "sun") },
		"the Subnet of the address":         func(w *world) { w.subnet("ext-public", kubedc.Public, "moon", "") },
		"the default Subnet":                func(w *world) { w.subnet("ext-cloud", kubedc.Cloud, "", "") },
		"a Vpc of another project":          func(w *world) { w.book.Vpc("bad", &kubeovn.Vpc{}) },
		"an OvnEip without anything":        func(w *world) { w.book.OvnEip("bad", &kubeovn.OvnEip{}) },
		"an OvnEip with what is no address": func(w *world) { w.ovnEip("bad", "ext-public", "moon", nil) },
		"an EIp that refers to nothing":     func(w *world) { w.eip("bad", api.EIpSpec{ChildRef: "moon"}) },
		"a default gateway of others":       func(w *world) { w.eip(kubedc.DefaultGateway, api.EIpSpec{ChildRef: "shalb-prod-ext-cloud"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.own("public", "ext-public", "168.119.17.52")
			change(w)
			if got := w.places(service("public")); got.Router != namespace || fmt.Sprint(got.Addresses) != "[168.119.17.52]" || got.Waits != nil {
				t.Errorf("%+v", got)
			}
		})
	}
	w := newWorld(t, nil)
	w.own("public", "ext-public", "168.119.17.52")
	w.book.Vpc(namespace, nil)
	if got := w.places(service("public")); got.Elsewhere == nil || got.Elsewhere.Code != eip.NotAProject {
		t.Errorf("without the Vpc: %+v", got)
	}
}
