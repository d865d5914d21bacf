package kubevip

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

type words = map[string]string

// given is a Service as Fairlead leaves it that has replaced kube-vip's cloud provider.
func given(change func(*lb.Service)) *lb.Service {
	s := &lb.Service{LoadBalancerIP: "10.0.0.1", Finalizers: []string{lb.CleanupFinalizer}, Labels: words{Label: LabelValue},
		Annotations: words{AnnotationAddresses: "10.0.0.1", AnnotationGiven: "10.0.0.1", AnnotationInterface: "eth1"}}
	if change != nil {
		change(s)
	}
	return s
}

// The finalizer has the name that all clouds use. It is kube-vip's on a Service that says so.
func TestHasFinalizer(t *testing.T) {
	for _, test := range []struct {
		name string
		s    lb.Service
		want bool
	}{
		{"nothing", lb.Service{}, false},
		{"another cloud's", lb.Service{Finalizers: []string{lb.CleanupFinalizer}}, false},
		{"with the annotation", lb.Service{Finalizers: []string{lb.CleanupFinalizer}, Annotations: words{AnnotationAddresses: ""}}, true},
		{"with the label", lb.Service{Finalizers: []string{lb.CleanupFinalizer}, Labels: words{Label: LabelValue}}, true},
		{"with another label", lb.Service{Finalizers: []string{lb.CleanupFinalizer}, Labels: words{Label: "other"}}, false},
		{"no finalizer, with both", lb.Service{Annotations: words{AnnotationAddresses: "x"}, Labels: words{Label: LabelValue}}, false},
		{"another finalizer", lb.Service{Finalizers: []string{"example.com/x"}, Labels: words{Label: LabelValue}}, false},
	} {
		if got := HasFinalizer(&test.s); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
		if got := HasMarks(&test.s); got != test.want {
			t.Errorf("%s: marks %t", test.name, got)
		}
	}
	for _, key := range []string{AnnotationGiven, AnnotationAsked, AnnotationProof, native.AnnotationReason} {
		if !HasMarks(&lb.Service{Annotations: words{key: ""}}) {
			t.Errorf("%s is not a mark", key)
		}
	}
}

// spec.loadBalancerIP is ours if it has what the Service was given and nobody asks for it.
func TestOwnsIP(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*lb.Service)
		want   bool
	}{
		"given":          {nil, true},
		"empty":          {func(s *lb.Service) { s.LoadBalancerIP = "" }, false},
		"nothing at all": {func(s *lb.Service) { *s = lb.Service{} }, false},
		"another":        {func(s *lb.Service) { s.LoadBalancerIP = "10.0.0.9" }, false},
		"asked for":      {func(s *lb.Service) { s.Annotations[AnnotationAsked] = "10.0.0.1" }, false},
		"another, asked": {func(s *lb.Service) { s.LoadBalancerIP, s.Annotations[AnnotationAsked] = "10.0.0.9", "10.0.0.9" }, false},
		"first of two":   {func(s *lb.Service) { s.Annotations[AnnotationGiven] = "10.0.0.1,fd00::1" }, true},
	} {
		if got := OwnsIP(given(test.change)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Release takes off what was written for kube-vip; what somebody chose stays.
func TestRelease(t *testing.T) {
	empty := ""
	off := func(more words) words {
		out := words{AnnotationGiven: "", AnnotationAsked: "", AnnotationProof: "", native.AnnotationAllocatedFrom: "", native.AnnotationReason: "", AnnotationHost: ""}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	both := words{Label: "", LabelOld: ""}
	for _, test := range []struct {
		name        string
		s           *lb.Service
		iface       string
		withSpec    bool
		annotations words
		labels      words
		ip          *string
	}{
		{"all of it", given(nil), "eth1", true, off(words{AnnotationAddresses: "", AnnotationInterface: ""}), both, &empty},
		{"another interface was chosen", given(nil), "eth0", true, off(words{AnnotationAddresses: ""}), both, &empty},
		{"no interface is written for the namespace", given(nil), "", true, off(words{AnnotationAddresses: ""}), both, &empty},
		{"the spec cannot be written", given(nil), "eth1", false, off(words{AnnotationInterface: "", AnnotationGiven: "10.0.0.1"}), both, nil},
		{"the spec need not be written", given(func(s *lb.Service) { s.LoadBalancerIP = "" }), "eth1", false, off(words{AnnotationAddresses: "", AnnotationInterface: ""}), both, nil},
		{"another is asked for", given(func(s *lb.Service) { s.Annotations[AnnotationAddresses] = "10.0.0.9" }), "eth1", true, off(words{AnnotationInterface: ""}), both, &empty},
		{"asked for in the spec", given(func(s *lb.Service) { s.Annotations[AnnotationAsked] = "10.0.0.1" }), "eth1", true, off(words{AnnotationAddresses: "", AnnotationInterface: ""}), both, nil},
		{"nothing was given", given(func(s *lb.Service) {
			s.Annotations, s.Labels = words{AnnotationAddresses: "", AnnotationInterface: "eth1"}, nil
		}), "eth1", true, off(nil), words{LabelOld: ""}, nil},
		{"another label", given(func(s *lb.Service) { s.Labels[Label] = "other" }), "eth1", true, off(words{AnnotationAddresses: "", AnnotationInterface: ""}), words{LabelOld: ""}, &empty},
	} {
		want := lb.Marks{Annotations: test.annotations, Labels: test.labels, Removed: []string{lb.CleanupFinalizer}, LoadBalancerIP: test.ip}
		if diff := cmp.Diff(want, Release(test.s, test.iface, test.withSpec)); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", test.name, diff)
		}
	}
}

// Where Fairlead announces, it takes marks off that it left, and lets Services go.
func TestLeave(t *testing.T) {
	var d Dialect
	deleted := given(func(s *lb.Service) { s.Deleting = true })
	if diff := cmp.Diff(lb.Marks{Removed: []string{lb.CleanupFinalizer}}, d.Leave(deleted, &lb.Request{Interface: "eth1"})); diff != "" {
		t.Errorf("a deleted one: %s", diff)
	}
	deleted.Finalizers = append(deleted.Finalizers, "example.com/x")
	if diff := cmp.Diff(lb.Marks{}, d.Leave(deleted, &lb.Request{})); diff != "" {
		t.Errorf("one that others keep: %s", diff)
	}
	served := given(nil)
	if diff := cmp.Diff(Release(served, "eth1", false), d.Leave(served, &lb.Request{Interface: "eth1"})); diff != "" {
		t.Errorf("one that stays: %s", diff)
	}
	for _, test := range []struct {
		name  string
		s     *lb.Service
		known bool
		want  bool
	}{
		{"served by us", given(nil), true, true},
		{"given by us", given(nil), false, true},
		{"given by the provider, not served by us", given(func(s *lb.Service) { delete(s.Annotations, AnnotationGiven) }), false, false},
		{"given by the provider, served by us", given(func(s *lb.Service) { delete(s.Annotations, AnnotationGiven) }), true, true},
		{"without marks", &lb.Service{}, true, false},
		{"being deleted", given(func(s *lb.Service) { s.Deleting = true }), false, true},
		{"being deleted, and not kept", given(func(s *lb.Service) { s.Deleting, s.Finalizers = true, nil }), true, false},
	} {
		if got := d.Marked(test.s, test.known); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// kube-vip.io/ignore leaves a Service to others if it is true.
func TestIgnores(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "1": true, "false": false, "yes": false, "": false} {
		s := &lb.Service{Annotations: words{AnnotationIgnore: value}}
		if Ignored(s) != want || (Dialect{}.Ignores(s) != "") != want {
			t.Errorf("%q: %t, %q", value, Ignored(s), Dialect{}.Ignores(s))
		}
	}
}
