package cloudscale

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/controller"
	"fairlead.io/sandbox/cloudscale"
)

// reasons of the events on a Service, in their order.
func (w *world) reasons(name string) (out []string) {
	for _, e := range w.events(name) {
		reason, _, _ := strings.Cut(e, ": ")
		out = append(out, reason)
	}
	return out
}

// The stages of a Service's life, each told once; and what is written for it:
// the finalizer, and one status.
func TestStages(t *testing.T) {
	w := newWorld(t, func(o *cloudscale.Options) { o.Creating, o.Changing = 300*time.Millisecond, 50*time.Millisecond })
	w.serve(web)
	w.told("web", "EnsuredLoadBalancer")
	w.annotate("web", "timeout-client-data-ms", "1001")
	w.told("web", "UpdatedLoadBalancer", "timeout_client_data_ms 50000 → 1001", "impact: none")
	w.delete("web")
	w.eventually("all gone", w.gone("web"))
	w.told("web", "DeletedLoadBalancer")
	if got, want := w.reasons("web"), []string{"EnsuringLoadBalancer", "EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletingLoadBalancer", "DeletedLoadBalancer"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v: %q", got, want, w.events("web"))
	}
}

func TestWritesPerService(t *testing.T) {
	w := newWorld(t, func(o *cloudscale.Options) { o.Creating = 300 * time.Millisecond })
	w.serve(strings.Replace(web, "name: web", "name: counted", 1))
	w.told("counted", "EnsuredLoadBalancer")
	counts, err := theRig.API.WriteCounts()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for c, n := range counts {
		if c.Resource == "services" && c.Name == "counted" {
			got[strings.TrimSuffix(c.Verb+" "+c.Subresource, " ")] += n
		}
	}
	// The one patch of the object is the test's own; the finalizer goes with the status.
	if got["patch"] != 1 || got["patch status"] != 2 || len(got) != 2 {
		t.Errorf("written: %v", got)
	}
}

func TestReadOnlyToken(t *testing.T) {
	const reader = "readonlytokenreadonlytokenreadon"
	w := newWorld(t, func(o *cloudscale.Options) { o.ReadOnlyToken = reader })
	w.startAs(reader)
	w.apply(web)
	w.service("web", "says what is wrong", says("TokenReadOnly", "is read-only", "Create one with read and write access"))
	w.told("web", "SyncLoadBalancerFailed", "is read-only")
	if e := fmt.Sprint(w.events("web")); strings.Contains(e, reader) {
		t.Errorf("the token is told: %s", e)
	}
}

// A lookup that fails makes no second load balancer, and no delete that did not
// happen is taken for done.
func TestFailedLookup(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	w.apply(web)
	w.service("web", "is served", ensured)
	stop()
	heal := w.Fail(cloudscale.Fault{Method: http.MethodGet, Path: "/v1/load-balancers", Status: http.StatusInternalServerError, Times: -1})
	w.start()
	w.annotate("web", "timeout-client-data-ms", "1001")
	w.service("web", "says what is wrong", func(s *corev1.Service) error {
		if err := says("CloudUnavailable")(s); err != nil {
			return says("SyncLoadBalancerFailed")(s)
		}
		return nil
	})
	w.delete("web")
	w.told("web", "DeleteLoadBalancerFailed", "500")
	if n := len(w.LoadBalancers()); n != 1 {
		t.Errorf("%d load balancers", n)
	}
	heal()
	w.eventually("all gone", w.gone("web"))
}

// A load balancer that cloudscale's own controller has made is taken over, with
// nothing made anew and no impact.
func TestAdoption(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	w.apply(web)
	s := w.service("web", "is served", ensured)
	stop()
	// As that controller leaves it: no tags, its version, no condition.
	for kind, ids := range w.ids() {
		for _, id := range ids {
			if err := w.Edit(kind, id, `{"tags": {"k8s-cluster-name": "", "k8s-service": "", "k8s-service-uid": "", "k8s-service-config-version": ""}}`); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.annotate("web", "config-version", "1")
	if _, err := theRig.Kube.CoreV1().Services("default").Patch(context.Background(), "web", "application/merge-patch+json", []byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(w.ids())
	w.ResetLog()
	stop = w.start(func(c *controller.Backend) { c.DryRun = true })
	w.told("web", "ChangesPlanned", "impact: none")
	stop()
	w.start()
	after := w.service("web", "is served", ensured)
	if got := fmt.Sprint(w.ids()); got != before {
		t.Errorf("made anew: %s, was %s", got, before)
	}
	if publishes(published(s)...)(after) != nil || after.Annotations[prefix+"config-version"] != "1" {
		t.Errorf("%v, %v", after.Status, after.Annotations)
	}
	for _, done := range w.writes() {
		if !strings.HasPrefix(done, "PATCH /v1/load-balancers/") {
			t.Errorf("did %s", done)
		}
	}
	w.delete("web")
	w.eventually("all gone", w.gone("web"))
}

// ids of everything that belongs to load balancers.
func (w *world) ids() map[cloudscale.Kind][]string {
	out := map[cloudscale.Kind][]string{}
	for _, o := range w.LoadBalancers() {
		out[cloudscale.LoadBalancers] = append(out[cloudscale.LoadBalancers], o.UUID)
	}
	for _, o := range w.Pools() {
		out[cloudscale.Pools] = append(out[cloudscale.Pools], o.UUID)
	}
	for _, o := range w.Listeners() {
		out[cloudscale.Listeners] = append(out[cloudscale.Listeners], o.UUID)
	}
	for _, o := range w.HealthMonitors() {
		out[cloudscale.HealthMonitors] = append(out[cloudscale.HealthMonitors], o.UUID)
	}
	for _, o := range w.Members("") {
		out[cloudscale.Members] = append(out[cloudscale.Members], o.UUID)
	}
	return out
}
