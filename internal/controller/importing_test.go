package controller

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
)

// A pool that arrives while Services are being imported is told to the ledger
// by its own reconcile; the import must not take it away again, for nothing
// would bring it back.
func TestImportKeepsPoolsThatArriveMeanwhile(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := crfake.NewClientBuilder().WithScheme(scheme).Build()
	l := newLedger(func([]types.NamespacedName) {})
	sources := poolSources{cache: objects, config: config.Default()}
	api := fake.NewClientset()
	api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}
		if err := objects.Create(t.Context(), pool); err != nil {
			return true, nil, err
		}
		_, err := (&pools{poolSources: sources, ledger: l}).Reconcile(t.Context(), reconcile.Request{})
		return err != nil, nil, err
	})
	i := &importer{poolSources: sources, cache: readCache{Cache: nil, reader: objects}, client: api, ledger: l, log: slog.New(slog.DiscardHandler)}
	if _, err := i.importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.usage()); n != 1 {
		t.Errorf("after the import the ledger has %d pools, want the one that arrived", n)
	}
}

// The watches of namespaces and of Services are not in step: a Service whose
// namespace has not arrived keeps what it has and gets nothing, for without the
// namespace's labels it would get an address that is not for it.
func TestServiceWaitsForItsNamespace(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string, has ...string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
		s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv4Protocol}
		s.Annotations = map[string]string{native.AnnotationReallocate: "true"}
		for _, ip := range has {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		return s
	}
	young, old := service("young"), service("old", "192.0.2.7")
	strangers := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "strangers"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"198.51.100.0/28"},
		NamespaceSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}}}}}}
	team := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"},
		NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}}}}
	objects := crfake.NewClientBuilder().WithScheme(scheme).WithObjects(young, old, strangers, team).WithStatusSubresource(&corev1.Service{}).Build()
	api := fake.NewClientset(young, old)
	l, log := newLedger(func([]types.NamespacedName) {}), slog.New(slog.DiscardHandler)
	i := &importer{poolSources: poolSources{cache: objects, config: config.Default()}, cache: readCache{reader: objects}, client: api, ledger: l, log: log}
	if _, err := i.importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &services{cache: objects, client: api, config: config.Default(), ledger: l, log: log, waited: prometheus.NewHistogram(timeToAddressOpts),
		events: newEvents(api, log, func() bool { return false })}
	check := func(want map[string]string) {
		t.Helper()
		for _, name := range []string{"young", "old"} {
			key := types.NamespacedName{Namespace: "shop", Name: name}
			if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if v, _ := l.alloc.Verdict(key); addressList(v.Addresses) != want[name] {
				t.Errorf("%s has %v, want %s", name, v.Addresses, want[name])
			}
		}
	}
	check(map[string]string{"young": "", "old": "192.0.2.7"})
	if err := objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"young": "192.0.2.0", "old": "192.0.2.7"})
}

// readCache is a cache of which only reading is used.
type readCache struct {
	cache.Cache
	reader client.Reader
}

func (c readCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

func (c readCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}
