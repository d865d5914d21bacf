package kubevip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

// old are the rights that Fairlead had before it knew of kube-vip and of Agents.
var old = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"services", "namespaces", "nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"fairlead.io"}, Resources: []string{"pools"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"fairlead.io"}, Resources: []string{"pools/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "get", "update"}},
}

// more is needed where kube-vip announces.
var more = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"patch"}}

// grant lets user read kube-vip's ConfigMap, and nothing else.
func grant(t *testing.T, user string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"kubevip"}, Verbs: []string{"get", "list", "watch"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	for _, o := range []client.Object{role, binding} {
		create(t, o)
		t.Cleanup(func() { _ = theRig.Client.Delete(context.Background(), o) })
	}
}

// A controller that is updated without its rights goes on with the pools that it
// may read, leaves Services with addresses of the others alone, and takes those up
// when it may.
func TestConfigMapThatMayNotBeRead(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.20.0.0/28"}), newService("before"), newService("pinned", asks("10.99.0.9")))
	stop := start(t, config.Default())
	eventually(t, "before", "has an address of the ConfigMap", publishes("10.20.0.1"))
	eventually(t, "pinned", "has what it asks for", publishes("10.99.0.9"))
	stop()
	before, pinned := get(t, "before"), get(t, "pinned")

	create(t, &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}})
	health, ready := healthAt(t)
	var log logged
	start(t, config.Default(), limited(t, theRig, "old", old...), health, log.set)
	rig.Eventually(t, "/readyz", ready)
	create(t, newService("after"))
	eventually(t, "after", "has an address of a Pool", publishes("192.0.2.0"))
	for kind, want := range map[string]string{"ConfigMap": `cannot list resource \"configmaps\"`, "Agent": `cannot list resource \"agents\"`} {
		rig.Eventually(t, "it is told that there is no "+kind, func() error {
			if n := log.count("going on without a kind", "kind="+kind, want); n != 1 {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
	}

	create(t, newService("requests", asks("10.20.0.7")))
	eventually(t, "requests", "is told why it waits", func(s *corev1.Service) bool {
		return len(s.Status.Conditions) > 0 && s.Status.Conditions[0].Reason == "PoolsUnreadable" && len(s.Status.LoadBalancer.Ingress) == 0
	})
	grant(t, "old")
	eventually(t, "requests", "has what it asks for", publishes("10.20.0.7"))
	eventually(t, "requests", "names the pool", func(s *corev1.Service) bool {
		return s.Annotations["fairlead.io/allocated-from"] == "kube-vip/cidr-global"
	})
	for _, had := range []*corev1.Service{before, pinned} {
		if now := get(t, had.Name); now.ResourceVersion != had.ResourceVersion {
			t.Errorf("%s was written: %v before, %v now", had.Name, had.Status, now.Status)
		}
	}
}

// In the place of kube-vip's cloud provider, the ConfigMap is all there is: Services
// without an address are told which right is missing, and are served when it comes.
func TestProviderThatMayNotRead(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.21.0.0/28"}), newService("before"))
	stop := start(t, provided)
	eventually(t, "before", "has an address", given("10.21.0.1"))
	stop()
	before := get(t, "before")

	start(t, provided, limited(t, theRig, "provider", append(old, more)...))
	create(t, newService("waits"))
	s := eventually(t, "waits", "is told why", says(`PoolsUnreadable: The controller cannot read ConfigMap kube-system/kubevip, which has the pools: configmaps "kubevip" is forbidden: User "provider" cannot list resource "configmaps"`))
	eventNow(t, s, "SyncLoadBalancerFailed: The controller cannot read ConfigMap kube-system/kubevip")
	if len(s.Status.Conditions) > 0 || s.Spec.LoadBalancerIP != "" {
		t.Errorf("it has %v and %q", s.Status, s.Spec.LoadBalancerIP)
	}
	grant(t, "provider")
	s = eventually(t, "waits", "has an address", given("10.21.0.2"))
	if _, waits := s.Annotations[reason]; waits {
		t.Errorf("it still says %q", s.Annotations[reason])
	}
	if now := get(t, "before"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the other one was written: %v", now.Annotations)
	}
}

// A cluster with nothing but the ConfigMap is served; our kinds may come later.
func TestOurKindsComeLater(t *testing.T) {
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	bare, err := rig.Connect(api)
	if err != nil {
		t.Fatal(err)
	}
	shared := theRig
	theRig = bare
	t.Cleanup(func() { theRig = shared })

	native := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}}}
	err = controller.Run(t.Context(), controller.Options{REST: api.RESTConfig(), Config: native, Log: slog.New(slog.DiscardHandler), Workers: 1, HealthAddress: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "install Fairlead's CRDs") {
		t.Errorf("without any kind that it could use it ends with: %v", err)
	}

	var log logged
	start(t, config.Default(), log.set)
	create(t, newService("web"))
	eventually(t, "web", "is told why", func(s *corev1.Service) bool {
		c := s.Status.Conditions
		return len(c) > 0 && c[0].Reason == "NoPool" && strings.Contains(c[0].Message, "does not know kind Pool of fairlead.io. Install Fairlead's CRDs")
	})
	if n := log.count("going on without a kind", "kind=Pool"); n != 1 {
		t.Errorf("told %d times", n)
	}
	create(t, configMap(map[string]string{"range-global": "10.22.0.5-10.22.0.6"}))
	eventually(t, "web", "has an address of the ConfigMap", publishes("10.22.0.5"))

	for _, crd := range charts.CRDs() {
		create(t, crd)
	}
	rig.Eventually(t, "a pool can be made", func() error {
		return client.IgnoreAlreadyExists(theRig.Client.Create(t.Context(), &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.8"}}}))
	})
	rig.Eventually(t, "the pool is taken up", func() error {
		var p v1alpha1.Pool
		if err := theRig.Client.Get(t.Context(), client.ObjectKey{Name: "edge"}, &p); err != nil {
			return err
		}
		if len(p.Status.Conditions) == 0 {
			return errors.New("its status is empty")
		}
		return nil
	})
	create(t, newService("asks", func(s *corev1.Service) { s.Annotations = map[string]string{"fairlead.io/pool": "edge"} }))
	eventually(t, "asks", "has an address of the Pool", publishes("192.0.2.8"))
	if now := get(t, "web"); !publishes("10.22.0.5")(now) {
		t.Errorf("web has %v", now.Status)
	}
}
