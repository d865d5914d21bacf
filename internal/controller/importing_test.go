package controller

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/backend"
	"fairlead.io/internal/backend/announce"
	provider "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/notary"
	"fairlead.io/internal/prose"
)

// A pool that arrives while Services are being imported is told to the ledger
// by its own reconcile; the import must not take it away again, for nothing
// would bring it back.
func TestImportKeepsPoolsThatArriveMeanwhile(t *testing.T) {
	objects, api := objectsOf(t), fake.NewClientset()
	c := commonOf(classesOf(config.Default(), nil), objects, api)
	api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}
		if err := objects.Create(t.Context(), pool); err != nil {
			return true, nil, err
		}
		_, err := (&pools{common: c, changed: func([]lb.Dialect) {}}).Reconcile(t.Context(), reconcile.Request{})
		return err != nil, nil, err
	})
	i := &importer{common: c, cache: readCache{reader: objects}}
	if _, err := i.importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.ledger.usage()); n != 1 {
		t.Errorf("after the import the ledger has %d pools, want the one that arrived", n)
	}
}

// The watches of namespaces and of Services are not in step: a Service whose
// namespace has not arrived keeps what it has and gets nothing, for without the
// namespace's labels it would get an address that is not for it.
func TestServiceWaitsForItsNamespace(t *testing.T) {
	service := func(name string, has ...string) *corev1.Service {
		s := serviceOf(name, "", false, has...)
		s.Annotations = map[string]string{native.AnnotationReallocate: "true"}
		return s
	}
	young, old := service("young"), service("old", "192.0.2.7")
	strangers := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "strangers"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"198.51.100.0/28"},
		NamespaceSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}}}}}}
	team := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"},
		NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}}}}
	objects, api := objectsOf(t, young, old, strangers, team), fake.NewClientset(young, old)
	shared := commonOf(classesOf(config.Default(), nil), objects, api)
	i := &importer{common: shared, cache: readCache{reader: objects}}
	if _, err := i.importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &services{common: shared, name: config.Announce, backend: shared.classes.backends[config.Announce]}
	check := func(want map[string]string) {
		t.Helper()
		for _, name := range []string{"young", "old"} {
			key := types.NamespacedName{Namespace: "shop", Name: name}
			if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if v, _ := c.ledger.alloc.Verdict(key); prose.Commas(v.Addresses) != want[name] {
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

// knowing is a backend that can be asked what Services have.
type knowing struct {
	announce.Backend
	knows map[types.UID]lb.Held
	fails error
}

func (k *knowing) Import(context.Context, []lb.Service) (map[types.UID]lb.Held, error) {
	return k.knows, k.fails
}

var _ backend.Importer = (*knowing)(nil)

// What a backend knows counts before what Services say. One that cannot be asked
// stops nobody.
func TestImportAsksBackends(t *testing.T) {
	known, unknown := serviceOf("known", "", false, "192.0.2.7"), serviceOf("unknown", "", false, "192.0.2.8")
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	knows := map[types.UID]lb.Held{"known": {Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}, Evidence: lb.Proven}}
	for name, test := range map[string]struct {
		backend *knowing
		want    map[string]string
	}{
		"it says":  {&knowing{knows: knows}, map[string]string{"known": "192.0.2.9", "unknown": "192.0.2.8"}},
		"it fails": {&knowing{knows: knows, fails: errors.New("away")}, map[string]string{"known": "192.0.2.7", "unknown": "192.0.2.8"}},
	} {
		objects := objectsOf(t, pool.DeepCopy(), namespace.DeepCopy())
		c := commonOf(classesOf(config.Default(), map[config.Backend]backend.Backend{config.Announce: test.backend}), objects, fake.NewClientset(known, unknown))
		n, err := (&importer{common: c, cache: readCache{reader: objects}}).importAll(t.Context())
		if err != nil || len(n) != 2 {
			t.Fatalf("%s: imported %d, %v", name, len(n), err)
		}
		for service, want := range test.want {
			if v, _ := c.ledger.alloc.Verdict(types.NamespacedName{Namespace: "shop", Name: service}); prose.Commas(v.Addresses) != want {
				t.Errorf("%s: %s has %v, want %s", name, service, v.Addresses, want)
			}
		}
	}
}

// sign has a notary write on s that it has an address.
func sign(t *testing.T, s *corev1.Service, address string) *notary.Notary {
	t.Helper()
	n, secrets := &notary.Notary{}, fake.NewClientset().CoreV1().Secrets("ns")
	for _, err := range []error{n.Open(t.Context(), secrets), n.Close(t.Context(), secrets)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Annotations[kubevip.AnnotationProof] = n.Sign(s.UID, []netip.Addr{netip.MustParseAddr(address)}, nil, time.Now())
	return n
}

// Services are imported that a class with pools serves, or that a backend has
// left; not those of others.
func TestImportTakesWhatIsHeld(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}, {Name: "vip", Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}, {Name: "cloud", Backend: cloud}}}
	labelled := serviceOf("given", "gone", false)
	labelled.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
	labelled.Annotations = map[string]string{kubevip.AnnotationAddresses: "192.0.2.4", kubevip.AnnotationGiven: "192.0.2.4"}
	forged := labelled.DeepCopy()
	forged.Name, forged.UID, forged.Annotations[kubevip.AnnotationGiven] = "forged", "forged", "192.0.2.7"
	notes := sign(t, labelled, "192.0.2.4")
	api := fake.NewClientset(
		serviceOf("served", "", false, "192.0.2.1"), serviceOf("left", "gone", true, "192.0.2.2"), labelled, forged,
		serviceOf("another's", "gone", false, "192.0.2.5"), serviceOf("of a cloud", "cloud", true, "192.0.2.6"))
	objects := objectsOf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}})
	c := commonOf(classesOf(cfg, map[config.Backend]backend.Backend{cloud: idle{}, config.KubeVIP: provider.Backend{Notary: notes}}), objects, api)
	if _, err := (&importer{common: c, cache: readCache{reader: objects}}).importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]string{"served": "192.0.2.1", "left": "192.0.2.2", "given": "192.0.2.4", "forged": "", "another's": "", "of a cloud": ""} {
		if v, _ := c.ledger.alloc.Verdict(types.NamespacedName{Namespace: "shop", Name: service}); prose.Commas(v.Addresses) != want {
			t.Errorf("%s has %v, want %q", service, v.Addresses, want)
		}
	}
}

// A Service that a class no longer serves is looked at by all backends. Whoever of
// them comes first or last, it keeps what one of them has given it, and nobody
// writes anything on it.
func TestLeftServiceKeepsItsAddresses(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}, {Name: "vip", Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}, {Name: "cloud", Backend: cloud}}}
	given := serviceOf("given", "gone", false)
	given.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
	given.Annotations = map[string]string{kubevip.AnnotationAddresses: "192.0.2.4", kubevip.AnnotationGiven: "192.0.2.4", native.AnnotationAllocatedFrom: "kube-vip/cidr-global"}
	notes := sign(t, given, "192.0.2.4")
	announced := serviceOf("announced", "gone", true, "192.0.2.4")
	for _, s := range []*corev1.Service{given, announced} {
		for _, order := range [][]config.Backend{{config.Announce, config.KubeVIP, cloud}, {cloud, config.KubeVIP, config.Announce}, {config.KubeVIP, cloud, config.Announce}} {
			api := fake.NewClientset(s.DeepCopy())
			c := commonOf(classesOf(cfg, map[config.Backend]backend.Backend{cloud: idle{}, config.KubeVIP: provider.Backend{Notary: notes}}), objectsOf(t, s.DeepCopy()), api)
			key := types.NamespacedName{Namespace: "shop", Name: s.Name}
			for range 2 {
				for _, name := range order {
					svc := &services{common: c, name: name, backend: c.classes.backends[name]}
					if _, err := svc.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if v, _ := c.ledger.alloc.Verdict(key); prose.Commas(v.Addresses) != "192.0.2.4" {
				t.Errorf("%s, looked at by %v: has %v", s.Name, order, v.Addresses)
			}
			if events := told(c.events); len(events) > 0 || len(api.Actions()) > 0 {
				t.Errorf("%s, looked at by %v: told %q, did %v", s.Name, order, events, api.Actions())
			}
		}
	}
}

// A Service that several have given something is let go by each of them when it is
// deleted.
func TestLeftServiceIsLetGo(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}, {Name: "vip", Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}}}
	s := serviceOf("web", "gone", true, "192.0.2.4")
	s.Labels, s.Finalizers, s.DeletionTimestamp = map[string]string{kubevip.Label: kubevip.LabelValue}, []string{lb.CleanupFinalizer}, &metav1.Time{Time: time.Now()}
	api := fake.NewClientset(s.DeepCopy())
	c := commonOf(classesOf(cfg, nil), objectsOf(t, s.DeepCopy()), api)
	key := types.NamespacedName{Namespace: "shop", Name: s.Name}
	for _, name := range []config.Backend{config.KubeVIP, config.Announce} {
		svc := &services{common: c, name: name, backend: c.classes.backends[name]}
		if _, err := svc.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	var patches []string
	for _, a := range api.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			patches = append(patches, string(p.GetPatch()))
		}
	}
	if len(patches) != 1 || !strings.Contains(patches[0], `"$deleteFromPrimitiveList/finalizers":["`+lb.CleanupFinalizer+`"]`) {
		t.Errorf("written: %q", patches)
	}
	if v, _ := c.ledger.alloc.Verdict(key); prose.Commas(v.Addresses) != "192.0.2.4" {
		t.Errorf("before it is gone it has %v", v.Addresses)
	}
}

// What cannot be listed is tried again, and nothing counts as known before. Of
// several that wait, one imports for all.
func TestImportIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, api := 0, fake.NewClientset()
		api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			return lists == 1, nil, errors.New("away")
		})
		objects := objectsOf(t)
		i := &importer{common: commonOf(classesOf(config.Default(), nil), objects, api), cache: readCache{reader: objects}}
		began := time.Now()
		go func() {
			if err := i.WaitForSync(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if i.ledger.isImported() {
			t.Error("imported, though nothing was listed")
		}
		<-i.ledger.imported
		synctest.Wait()
		if took := time.Since(began); took != importRetry || lists != 2 {
			t.Errorf("took %v and %d lists", took, lists)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := i.WaitForSync(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if lists != 2 {
			t.Errorf("listed %d times", lists)
		}
	})
}

// An import that never succeeds ends with the controller.
func TestImportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("away")
		})
		objects := objectsOf(t)
		i := &importer{common: commonOf(classesOf(config.Default(), nil), objects, api), cache: readCache{reader: objects}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := i.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) || i.ledger.isImported() {
			t.Errorf("imported: %v, %v", i.ledger.isImported(), err)
		}
	})
}

// At a first start, only the Service that turns out to have an address gets a proof: the
// younger of two proofs would win at the next.
func TestLoserIsNotSigned(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Name: "vip", Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}}}
	var left []*corev1.Service
	for i, name := range []string{"older", "younger"} {
		s := serviceOf(name, "gone", false)
		s.CreationTimestamp = metav1.Unix(int64(1000+i), 0)
		s.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
		s.Annotations = map[string]string{kubevip.AnnotationAddresses: "192.0.2.4"}
		s.Spec.LoadBalancerIP, s.Spec.Ports = "192.0.2.4", []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
		left = append(left, s)
	}
	api := fake.NewClientset(left[0].DeepCopy(), left[1].DeepCopy())
	objects := objectsOf(t, left[0].DeepCopy(), left[1].DeepCopy(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	b := provider.Backend{Notary: &notary.Notary{}}
	c := commonOf(classesOf(cfg, map[config.Backend]backend.Backend{config.KubeVIP: b}), objects, api)
	svc := &services{common: c, name: config.KubeVIP, backend: c.classes.backends[config.KubeVIP]}
	svc.backend.Workers = 1
	i := &importer{common: c, cache: readCache{reader: objects}, secrets: api.CoreV1().Secrets("ns"), services: []*services{svc}}
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"older": true, "younger": false} {
		s, err := api.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, has := s.Annotations[kubevip.AnnotationProof]; has != want {
			t.Errorf("%s has a proof: %v", name, has)
		}
	}
}
