package metallb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"fairlead.io/test/kit/leak"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/agent"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Against a real API server: what an agent writes for those who read MetalLB's
// objects.
func TestStatusObjects(t *testing.T) {
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	}()
	r, err := rig.New(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("ServiceL2Status", func(t *testing.T) { l2StatusesAreWritten(t, r) })
	t.Run("ConfigurationState", func(t *testing.T) { configStateIsWritten(t, r) })
	t.Run("without the right", func(t *testing.T) { observerEndsWithoutTheRight(t, r) })
}

// newObserver is that of a node with an Agent object.
func newObserver(t *testing.T, r *rig.Rig, node string) *Observer {
	t.Helper()
	rig.Eventually(t, "the Agent object is there", func() error {
		err := r.Client.Create(t.Context(), &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: node}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	return runObserver(t, Options{REST: r.API.RESTConfig(), Node: node})
}

// runObserver runs until the test ends.
func runObserver(t *testing.T, o Options) *Observer {
	t.Helper()
	o.Objects, o.Namespace, o.Log, o.Registry = true, rig.MetalLBNamespace, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return m
}

// An observer that may not read its objects waits, and ends all the same.
func observerEndsWithoutTheRight(t *testing.T, r *rig.Rig) {
	r.InstallMetalLB(t, charts.MetalLBCRDs()...)
	o := Options{REST: rest.CopyConfig(r.API.RESTConfig()), Node: "a"}
	o.REST.Impersonate.UserName = "some-agent"
	var asked sync.Map
	o.REST.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			asked.Store(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], true)
			return next.RoundTrip(r)
		})
	})
	runObserver(t, o)
	rig.Eventually(t, "the observer has asked", func() error {
		for _, resource := range []string{"servicel2statuses", "configurationstates"} {
			if _, ok := asked.Load(resource); !ok {
				return fmt.Errorf("not for %s", resource)
			}
		}
		return nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// l2Expected waits until the ServiceL2Status objects are these: "node service
// interfaces…".
func l2Expected(t *testing.T, r *rig.Rig, want ...string) {
	t.Helper()
	rig.Eventually(t, "ServiceL2Status", func() error {
		var list apimetallb.ServiceL2StatusList
		if err := r.Client.List(t.Context(), &list, client.InNamespace(rig.MetalLBNamespace)); err != nil {
			return err
		}
		got := sets.New[string]()
		for _, o := range list.Items {
			text := []string{o.Status.Node, o.Status.ServiceNamespace + "/" + o.Status.ServiceName}
			for _, i := range o.Status.Interfaces {
				text = append(text, i.Name)
			}
			if !strings.HasPrefix(o.Name, "l2-") || o.Labels[apimetallb.LabelNode] != o.Status.Node ||
				o.Labels[apimetallb.LabelServiceName] != o.Status.ServiceName || o.Labels[apimetallb.LabelServiceNamespace] != o.Status.ServiceNamespace {
				text = append(text, fmt.Sprint("but is called ", o.Name, o.Labels))
			}
			if len(o.OwnerReferences) != 1 || o.OwnerReferences[0].Kind != "Agent" || o.OwnerReferences[0].Name != o.Status.Node {
				text = append(text, fmt.Sprint("but is owned by ", o.OwnerReferences))
			}
			got.Insert(strings.Join(text, " "))
		}
		if len(list.Items) != got.Len() {
			return fmt.Errorf("some are there twice: %v", sets.List(got))
		}
		if diff := cmp.Diff(want, sets.List(got)); diff != "" && len(want)+got.Len() > 0 {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
}

func l2StatusesAreWritten(t *testing.T, r *rig.Rig) {
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	a, b := newObserver(t, r, "a"), newObserver(t, r, "b")
	// The kinds come while the agents run.
	a.l2.set(map[types.NamespacedName]agent.Presence{web: {Interfaces: []string{"eth0"}}, db: {}})
	r.InstallMetalLB(t, charts.MetalLBCRDs()...)
	l2Expected(t, r, "a shop/db", "a shop/web eth0")

	// Somebody deletes them.
	if err := r.Client.DeleteAllOf(t.Context(), &apimetallb.ServiceL2Status{}, client.InNamespace(rig.MetalLBNamespace)); err != nil {
		t.Fatal(err)
	}
	l2Expected(t, r, "a shop/db", "a shop/web eth0")

	// One is announced on other interfaces, the other on all.
	a.l2.set(map[types.NamespacedName]agent.Presence{web: {}, db: {Interfaces: []string{"eth0", "eth1"}}})
	l2Expected(t, r, "a shop/db eth0 eth1", "a shop/web")

	// The other node takes one over, and a has not noticed yet, or never will.
	b.l2.set(map[types.NamespacedName]agent.Presence{web: {Interfaces: []string{"eth0"}}})
	a.l2.set(map[types.NamespacedName]agent.Presence{db: {}})
	l2Expected(t, r, "a shop/db", "b shop/web eth0")

	// What MetalLB's speakers have left, on this node and on another.
	for _, node := range []string{"a", "c"} {
		left := l2Object(rig.MetalLBNamespace, node, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "speaker", UID: "gone"}, db)
		if err := r.Client.Create(t.Context(), left); err != nil {
			t.Fatal(err)
		}
	}
	a.l2.set(map[types.NamespacedName]agent.Presence{db: {Interfaces: []string{"eth0"}}})
	l2Expected(t, r, "a shop/db eth0", "b shop/web eth0")

	// Many at once, and none of them lost.
	many := map[types.NamespacedName]agent.Presence{db: {}}
	want := []string{"a shop/db", "b shop/web eth0"}
	for i := range 2*maxL2Names + 1 {
		s := types.NamespacedName{Namespace: "many", Name: fmt.Sprintf("s%03d", i)}
		many[s] = agent.Presence{}
		want = append(want, "a "+s.String())
	}
	a.l2.set(many)
	slices.Sort(want)
	l2Expected(t, r, want...)

	// Once everything is said, nothing is written.
	quiet(t, r, "servicel2statuses")

	// The agents leave.
	for _, x := range []*Observer{a, b} {
		if err := x.l2.finish(t.Context()); err != nil {
			t.Error(err)
		}
	}
	l2Expected(t, r)
}

// quiet waits until no more is written to a resource, and then watches for a
// while that it stays so.
func quiet(t *testing.T, r *rig.Rig, resource string) {
	t.Helper()
	count := func() (n int) {
		counts, err := r.API.WriteCounts()
		if err != nil {
			t.Fatal(err)
		}
		for w, k := range counts {
			if w.Resource == resource {
				n += k
			}
		}
		return n
	}
	before, still := -1, 0
	rig.Eventually(t, resource+" are no longer written", func() error {
		if n := count(); n != before {
			before, still = n, 0
		}
		if still++; still < 150 { // three seconds, of passes that are a second apart
			return fmt.Errorf("%d writes", before)
		}
		return nil
	})
}

func configStateIsWritten(t *testing.T, r *rig.Rig) {
	r.InstallMetalLB(t, charts.MetalLBCRDs()...)
	a := newObserver(t, r, "a")
	key := types.NamespacedName{Namespace: rig.MetalLBNamespace, Name: "speaker-a"}
	expect := func(want apimetallb.Result, summary string) (o apimetallb.ConfigurationState) {
		t.Helper()
		rig.Eventually(t, "ConfigurationState", func() error {
			o = apimetallb.ConfigurationState{}
			if err := r.Client.Get(t.Context(), key, &o); err != nil {
				return err
			}
			c := o.Status.Conditions
			valid := want == apimetallb.Valid
			if o.Status.Result != want || o.Status.ErrorSummary != summary || len(c) != 1 || c[0].Type != "configReconcilerValid" ||
				(c[0].Status == metav1.ConditionTrue) != valid || c[0].Reason != map[bool]string{true: "Reconciled", false: "ConfigurationError"}[valid] ||
				o.Labels[apimetallb.LabelComponentType] != "speaker" || o.Labels[apimetallb.LabelNodeName] != "a" ||
				len(o.OwnerReferences) != 1 || o.OwnerReferences[0].Kind != "Agent" {
				return fmt.Errorf("%+v", o)
			}
			return nil
		})
		return o
	}
	// That of MetalLB's speaker is replaced.
	old := &apimetallb.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := r.Client.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	a.state.set("")
	expect(apimetallb.Valid, "")
	a.state.set("IPAddressPool edge: it is wrong.")
	bad := expect(apimetallb.Invalid, "IPAddressPool edge: it is wrong.")
	if err := r.Client.Delete(t.Context(), &bad); err != nil {
		t.Fatal(err)
	}
	expect(apimetallb.Invalid, "IPAddressPool edge: it is wrong.")
	a.state.set("")
	expect(apimetallb.Valid, "")
	quiet(t, r, "configurationstates")
	if err := a.state.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "it is gone", func() error {
		err := r.Client.Get(context.WithoutCancel(t.Context()), key, old)
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}
