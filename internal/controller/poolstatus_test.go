package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// Which pools are refused is told once on the object that they are written in, and
// again if it is so again; pools that are objects are told themselves.
func TestClashesAreToldOnce(t *testing.T) {
	events := newEvents(nil, quiet, func() bool { return false })
	p := &poolStatus{told: &Told{events: events}, voice: classesOf(config.Default(), nil).voice}
	clash := func(d lb.Dialect, name, with string, uid types.UID) ipam.PoolUsage {
		u := ipam.PoolUsage{Key: lb.PoolKey{Dialect: d, Name: name}, Reason: lb.PoolOverlap.With(name, "192.0.2.1", with)}
		if uid != "" {
			u.Object = &lb.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "kubevip", UID: uid}
		}
		return u
	}
	told := func() (out []string) {
		for w, ok := events.next(); ok; w, ok = events.next() {
			if w.once == "" {
				t.Errorf("told again after a restart: %v", w.event)
			}
			out = append(out, w.about.Kind+" "+string(w.about.UID)+" "+w.event.Reason+" "+w.event.Message)
		}
		return out
	}
	a, b := clash(kubevip.Name, "cidr-a", "edge", "one"), clash(kubevip.Name, "cidr-b", "edge", "one")
	fine := ipam.PoolUsage{Key: lb.PoolKey{Dialect: kubevip.Name, Name: "cidr-c"}, Object: a.Object, Reason: lb.PoolReady.With()}
	for _, step := range []struct {
		name  string
		usage []ipam.PoolUsage
		want  int
		uid   string
	}{
		{"one of several", []ipam.PoolUsage{fine, a, clash(lb.Native, "lab", "edge", ""), clash(metallb.Name, "lab", "edge", "")}, 1, "one"},
		{"the same", []ipam.PoolUsage{a, fine}, 0, "one"},
		{"one more", []ipam.PoolUsage{a, b}, 1, "one"},
		{"none", []ipam.PoolUsage{fine}, 0, "one"},
		{"again", []ipam.PoolUsage{b}, 1, "one"},
		{"it is gone", []ipam.PoolUsage{clash(kubevip.Name, "cidr-a", "edge", "")}, 0, "one"},
		{"a new one", []ipam.PoolUsage{clash(kubevip.Name, "cidr-b", "edge", "two")}, 1, "two"},
	} {
		p.tellClashes(step.usage)
		got := told()
		if len(got) != step.want {
			t.Errorf("%s: told %q", step.name, got)
		}
		for _, text := range got {
			if !strings.HasPrefix(text, "ConfigMap "+step.uid+" PoolOverlap ") {
				t.Errorf("%s: %s", step.name, text)
			}
		}
	}
}
