package controller

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// answering is a backend without pools that speaks kube-vip's dialect, and always
// comes to the same.
type answering struct {
	speaker
	out lb.Outcome
}

func (a answering) Sync(context.Context, lb.Want) (lb.Outcome, error) { return a.out, nil }

// lookAt has the Service looked at by a backend of a cluster that also has a cloud,
// which comes to out.
func lookAt(t *testing.T, s *corev1.Service, out lb.Outcome, prepare func(*common), by ...config.Backend) (*common, *fake.Clientset) {
	t.Helper()
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native, kubevip.Name}}, {Name: "cloud", Backend: cloud}}}
	api := fake.NewClientset(s.DeepCopy())
	c := commonOf(classesOf(cfg, map[config.Backend]backend.Backend{cloud: answering{speaker{dialect: kubevip.Name}, out}}), objectsOf(t, s.DeepCopy()), api)
	prepare(c)
	for _, name := range by {
		svc := &services{common: c, name: name, backend: c.classes.backends[name]}
		if _, err := svc.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}}); err != nil {
			t.Fatal(err)
		}
	}
	return c, api
}

// A Service that is to be ignored is let go by the backend of its class alone:
// another that takes off the condition would leave the addresses that it proves.
func TestIgnoredServiceIsLetGoByItsBackend(t *testing.T) {
	s := serviceOf("web", "", true, "192.0.2.7")
	s.Annotations = map[string]string{kubevip.AnnotationIgnore: "true"}
	goes := lb.Outcome{Gone: true, Condition: lb.ConditionGoes}
	_, api := lookAt(t, s, goes, func(*common) {}, cloud)
	if got := written(api); len(got) > 0 {
		t.Errorf("another has written %q", got)
	}
	_, api = lookAt(t, s, goes, func(*common) {}, cloud, config.Announce)
	if got := written(api); len(got) != 1 || !strings.Contains(got[0], `"ingress":null`) || !strings.Contains(got[0], `"$patch":"delete"`) {
		t.Errorf("written %q", got)
	}
}

// A backend whose classes have no pools gives back nothing: it does not wait until
// all that is held is known, and may see a Service as it was before it got something.
func TestBackendWithoutPoolsGivesNothingBack(t *testing.T) {
	s := serviceOf("web", "", true)
	s.Spec.Type = corev1.ServiceTypeClusterIP
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	c, _ := lookAt(t, s, lb.Outcome{Gone: true}, func(c *common) { c.ledger.settle(lb.Request{Service: key}, nil) }, cloud)
	if _, known := c.ledger.alloc.Verdict(key); !known || len(told(c.events)) > 0 {
		t.Error("the ledger has forgotten it")
	}
}

// A Service that became another type is told what becomes of it in the words of the
// backend, as before.
func TestServiceIsLeftInTheWordsOfItsBackend(t *testing.T) {
	s := serviceOf("web", "", true)
	s.Spec.Type = corev1.ServiceTypeClusterIP
	c, _ := lookAt(t, s, lb.Outcome{Reason: lb.TokenInvalid.With("401")}, func(*common) {}, cloud)
	if got := told(c.events); len(got) != 1 || !strings.HasPrefix(got[0], string(lb.SyncLoadBalancerFailed)+": ") {
		t.Errorf("told %q", got)
	}
}

// Nothing is written in a dry run, not even what has to be there before anything is
// made.
func TestDryRunKeepsNothing(t *testing.T) {
	s := serviceOf("web", "cloud", false)
	keep := lb.Outcome{Keep: true, Marks: lb.Marks{Finalizers: []string{"example.com/cleanup"}}}
	for _, dry := range []bool{true, false} {
		_, api := lookAt(t, s, keep, func(c *common) { c.classes.backends[cloud].DryRun = dry }, cloud)
		if got := written(api); dry != (len(got) == 0) {
			t.Errorf("dry run %v: written %q", dry, got)
		}
	}
}
