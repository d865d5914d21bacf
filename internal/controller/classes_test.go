package controller

import (
	"context"
	"slices"
	"testing"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// several are classes of all sorts. Backends "absent" and "speaks" are not of this
// world; only the latter is there.
func several() *classes {
	cfg := &config.Configuration{Classes: []config.Class{
		{Backend: config.Announce, Pools: []lb.Dialect{lb.Native, metallb.Name}},
		{Name: "both", Backend: config.Announce, Pools: []lb.Dialect{kubevip.Name, lb.Native}},
		{Name: "vip", Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}},
		{Name: "cloud", Backend: cloud},
		{Name: "speaks", Backend: "speaks"},
		{Name: "has", Backend: "has"},
		{Name: "absent", Backend: "absent"},
	}}
	none := func(context.Context) ([]lb.Pool, error) { return nil, nil }
	return classesOf(cfg, map[config.Backend]backend.Backend{cloud: idle{}, "speaks": speaker{dialect: "words"}, "has": keeper{speaker{dialect: "stock"}, none}})
}

func TestClassOf(t *testing.T) {
	c := several()
	ignored := map[string]string{kubevip.AnnotationIgnore: "true"}
	for name, test := range map[string]struct {
		s       lb.Service
		want    config.Backend
		ignored bool
	}{
		"without a class":                    {s: lb.Service{LoadBalancer: true}, want: config.Announce},
		"of another type":                    {s: lb.Service{}},
		"of a class":                         {s: lb.Service{LoadBalancer: true, Class: "vip"}, want: config.KubeVIP},
		"of nobody's class":                  {s: lb.Service{LoadBalancer: true, Class: "other"}},
		"whose backend is not there":         {s: lb.Service{LoadBalancer: true, Class: "absent"}},
		"to be left alone":                   {s: lb.Service{LoadBalancer: true, Class: "both", Annotations: ignored}, ignored: true},
		"in words that the class knows not":  {s: lb.Service{LoadBalancer: true, Annotations: ignored}, want: config.Announce},
		"in words that its backend speaks":   {s: lb.Service{LoadBalancer: true, Class: "vip", Annotations: ignored}, want: config.KubeVIP},
		"to be left alone, of another type":  {s: lb.Service{Class: "both", Annotations: ignored}},
		"to be left alone, of nobody's":      {s: lb.Service{LoadBalancer: true, Class: "other", Annotations: ignored}},
		"to be left alone, but not in truth": {s: lb.Service{LoadBalancer: true, Class: "both", Annotations: map[string]string{kubevip.AnnotationIgnore: "no"}}, want: config.Announce},
	} {
		var got config.Backend
		if class := c.of(&test.s); class != nil {
			got = class.Backend
		}
		if why := c.ignored(&test.s); got != test.want || (why != "") != test.ignored {
			t.Errorf("%s: served by %q, want %q; ignored: %q", name, got, test.want, why)
		}
	}
}

// A Service is left by who gave it its addresses, if no class lists it any more.
func TestLeftBy(t *testing.T) {
	c := several()
	attested, reported := kubeapi.Service(serviceOf("a", "gone", true, "192.0.2.7")), kubeapi.Service(serviceOf("a", "gone", false, "192.0.2.7"))
	given := kubeapi.Service(serviceOf("a", "gone", false))
	given.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
	both := kubeapi.Service(serviceOf("a", "gone", true, "192.0.2.7"))
	both.Labels = given.Labels
	for name, test := range map[string]struct {
		s      *lb.Service
		change func(*lb.Service)
		want   config.Backend
	}{
		"announced":                             {s: attested, want: config.Announce},
		"published by somebody":                 {s: reported},
		"given to kube-vip":                     {s: given, want: config.KubeVIP},
		"given, then announced":                 {s: both, want: config.Announce},
		"of a class that is served":             {s: attested, change: func(s *lb.Service) { s.Class = "" }},
		"of a class whose backend is not there": {s: attested, change: func(s *lb.Service) { s.Class = "absent" }},
		"of another type":                       {s: attested, change: func(s *lb.Service) { s.LoadBalancer = false }},
		"without an address":                    {s: attested, change: func(s *lb.Service) { s.Ingress = nil }},
	} {
		s := *test.s
		if test.change != nil {
			test.change(&s)
		}
		if got := c.leftBy(&s); got != test.want {
			t.Errorf("%s: left by %q, want %q", name, got, test.want)
		}
	}
}

// How Services of each class are read, and those that a backend has left.
func TestReadingOfClasses(t *testing.T) {
	c := several()
	for name, want := range map[string]compat.Class{
		"":       {Dialects: []lb.Dialect{lb.Native, metallb.Name}},
		"both":   {Dialects: []lb.Dialect{kubevip.Name, lb.Native}},
		"vip":    {Dialects: []lb.Dialect{kubevip.Name}, Words: kubevip.Name},
		"cloud":  {},
		"speaks": {Words: "words"},
		"has":    {Dialects: []lb.Dialect{"stock"}, Words: "stock"},
	} {
		got := c.reading(c.config.Class(name))
		if !slices.Equal(got.Dialects, want.Dialects) || got.Words != want.Words {
			t.Errorf("class %q: %v, want %v", name, got, want)
		}
		if settles := c.settles(c.config.Class(name)); settles != (len(want.Dialects) > 0) {
			t.Errorf("class %q has addresses from pools: %v", name, settles)
		}
	}
	for name, want := range map[config.Backend]compat.Class{
		config.Announce: {Dialects: []lb.Dialect{lb.Native, metallb.Name, kubevip.Name}},
		config.KubeVIP:  {Dialects: []lb.Dialect{kubevip.Name}, Words: kubevip.Name},
		cloud:           {},
		"speaks":        {Words: "words"},
		"has":           {Dialects: []lb.Dialect{"stock"}, Words: "stock"},
	} {
		got := c.readingOf(name)
		if !slices.Equal(got.Dialects, want.Dialects) || got.Words != want.Words {
			t.Errorf("backend %s: %v, want %v", name, got, want)
		}
		if from := c.fromPools(name); from != (len(want.Dialects) > 0) {
			t.Errorf("backend %s has addresses from pools: %v", name, from)
		}
	}
	if slices.Contains(c.config.Class("has").Pools, "stock") {
		t.Error("the configuration has changed")
	}
}

func TestUses(t *testing.T) {
	c := several()
	for name, want := range map[lb.Dialect]bool{lb.Native: true, metallb.Name: true, kubevip.Name: true, "words": true, "stock": true, "other": false} {
		if got := c.uses(name); got != want {
			t.Errorf("%s is used: %v", name, got)
		}
	}
	only := classesOf(&config.Configuration{Classes: []config.Class{{Backend: cloud}, {Name: "absent", Backend: "absent", Pools: []lb.Dialect{lb.Native}}}}, map[config.Backend]backend.Backend{cloud: idle{}})
	if only.uses(lb.Native) || only.anyFromPools() {
		t.Error("pools are used by a class that is not served")
	}
	elsewhere := classesOf(&config.Configuration{Classes: []config.Class{{Backend: config.KubeVIP, Pools: []lb.Dialect{lb.Native}}}}, nil)
	if elsewhere.uses(kubevip.Name) || !elsewhere.uses(lb.Native) {
		t.Error("pools are read that no class may use")
	}
	if !c.anyFromPools() {
		t.Error("no class has addresses from pools")
	}
}

// What a backend does not say of a Service is what its status says.
func TestHeldWithoutAHolder(t *testing.T) {
	b := &Backend{Backend: idle{}}
	s := kubeapi.Service(serviceOf("a", "", true, "192.0.2.7"))
	if h := b.held(s); prose.Commas(h.Addresses) != "192.0.2.7" || h.Evidence != lb.Reported || !h.Current || h.Left {
		t.Errorf("%+v", h)
	}
	if s.Says = nil; b.held(s).Current || b.marked(s) || b.words() != "" || b.needs() != (lb.Needs{}) {
		t.Error("something was made up")
	}
}
