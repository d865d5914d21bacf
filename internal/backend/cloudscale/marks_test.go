package cloudscale

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// unkept has no finalizer yet.
func unkept(s *corev1.Service) { s.Finalizers = nil }

func classed(s *corev1.Service) {
	class := "cloudscale"
	s.Spec.LoadBalancerClass = &class
}

func inside(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }

func deleting(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: now} }

// A Service waits for its load balancer before there is one.
func TestKeptFirst(t *testing.T) {
	const began = "2000-01-01T00:00:00Z" // as clocks in bubbles say
	for name, test := range map[string]struct {
		edits []edit
		want  lb.Marks
	}{
		"without a class":         {want: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}, Annotations: map[string]string{compat.AnnotationCreating: began}}},
		"with a class":            {edits: []edit{classed}, want: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}, Annotations: map[string]string{compat.AnnotationConfigVersion: "2", compat.AnnotationCreating: began}}},
		"with a class, by UUID":   {edits: []edit{classed, annotated(compat.AnnotationUUID, "x")}, want: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}}},
		"with a class, versioned": {edits: []edit{classed, annotated(compat.AnnotationConfigVersion, "1")}, want: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}, Annotations: map[string]string{compat.AnnotationCreating: began}}},
	} {
		in(t, quick, 1, func(t *testing.T, c *account) {
			out, err := c.backend.Sync(t.Context(), c.want())
			if err != nil || len(c.sim.Log()) > 0 {
				t.Errorf("%s: %v, called:\n%s", name, err, c.requests())
			}
			if diff := cmp.Diff(lb.Outcome{Keep: true, Marks: test.want}, out); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			w := c.want()
			w.DryRun = true
			if out, err = c.backend.Sync(t.Context(), w); err != nil || out.Keep || out.Reason.Code != lb.ChangesPlanned {
				t.Errorf("%s, in a dry run: %v, %+v", name, err, out)
			}
			c.service.Finalizers = []string{"example.com/other", lb.CleanupFinalizer}
			if out, err = c.look(); err != nil || out.Keep || len(c.sim.LoadBalancers()) != 1 {
				t.Errorf("%s, kept: %v, %+v", name, err, out)
			}
		}, append(test.edits, unkept)...)
	}
}

// What becomes of a Service that is gone: everything of ours is taken off, and
// nothing of others.
func TestGoneOutcomes(t *testing.T) {
	ours := annotated(compat.AnnotationUUID, "x")
	mine := lb.Marks{Removed: []string{lb.CleanupFinalizer}, Annotations: map[string]string{compat.AnnotationUUID: "", compat.AnnotationConfigVersion: "", compat.AnnotationCreating: ""}}
	for name, test := range map[string]struct {
		edits     []edit
		unclassed bool
		want      lb.Marks
		condition lb.ConditionChange
		looked    bool // at the cloud
	}{
		"another class now":                {edits: nil, want: mine, condition: lb.ConditionGoes, looked: true},
		"another type now":                 {edits: []edit{inside, ours}, want: mine, condition: lb.ConditionGoes, looked: true},
		"another type, without a sign":     {edits: []edit{inside}, condition: lb.ConditionGoes},
		"without a sign, all are ours":     {edits: []edit{inside}, unclassed: true, want: mine, condition: lb.ConditionGoes, looked: true},
		"never kept":                       {edits: []edit{unkept, ours}, condition: lb.ConditionGoes},
		"deleted":                          {edits: []edit{deleting}, want: lb.Marks{Removed: []string{lb.CleanupFinalizer}}, looked: true},
		"deleted, kept by another":         {edits: []edit{deleting, inside}},
		"deleted, kept by another, all":    {edits: []edit{deleting, inside}, unclassed: true, want: lb.Marks{Removed: []string{lb.CleanupFinalizer}}, looked: true},
		"deleted, without our finalizer":   {edits: []edit{deleting, unkept, ours}},
		"deleted, and another waits, too":  {edits: []edit{deleting, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/other") }}, want: lb.Marks{Removed: []string{lb.CleanupFinalizer}}, looked: true},
		"another type, versioned, no UUID": {edits: []edit{inside, annotated(compat.AnnotationConfigVersion, "2")}, want: mine, condition: lb.ConditionGoes, looked: true},
	} {
		in(t, quick, 1, func(t *testing.T, c *account) {
			c.gone, c.backend.unclassed = true, test.unclassed
			out, err := c.backend.Sync(t.Context(), c.want())
			if err != nil || !out.Gone || out.Condition != test.condition || out.Ingress != nil || (len(c.sim.Log()) > 0) != test.looked {
				t.Errorf("%s: %v, %+v, called:\n%s", name, err, out, c.requests())
			}
			if diff := cmp.Diff(test.want, out.Marks); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if marked := c.backend.Marked(kubeapi.Service(c.service)); marked != test.looked {
				t.Errorf("%s: marked is %v", name, marked)
			}
		}, test.edits...)
	}
}

// As long as nobody knows which load balancer is to go, the Service waits.
func TestGoneIsAmbiguous(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *account) {
		for range 2 {
			if _, err := c.backend.client.LoadBalancers.Create(t.Context(), cloudscale.NewLoadBalancer{Name: "stray", Flavor: "lb-standard", Zone: "lpg1"}); err != nil {
				t.Fatal(err)
			}
		}
		c.gone = true
		out, err := c.look()
		if err != nil || out.Gone || len(out.Marks.Removed) > 0 || out.Condition != lb.ConditionSays || len(c.sim.LoadBalancers()) != 2 {
			t.Errorf("%v, %+v", err, out)
		}
		as(t, out.Reason, lb.DeleteLoadBalancerFailed, "stray")
	}, annotated(compat.AnnotationName, "stray"))
}

// A claim changes with what others may ask for as well, and is nobody's who goes.
func TestClaims(t *testing.T) {
	claim := func(edits ...edit) string { return (&Backend{}).Claim(kubeapi.Service(service(edits...))) }
	floating, name := annotated(compat.AnnotationFloatingIPs, `["192.0.2.9/32"]`), annotated(compat.AnnotationName, "web")
	all := []string{claim(), claim(floating), claim(name), claim(floating, name)}
	for i, one := range all {
		if slices.Contains(all[:i], one) {
			t.Errorf("%q twice in %q", one, all)
		}
	}
	if all[0] != "" || claim(floating, deleting) != "" || claim(floating, annotated(compat.AnnotationMonitorDelay, "3")) != all[1] {
		t.Errorf("%q", all)
	}
}
