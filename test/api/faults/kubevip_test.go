package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/setup"
	"fairlead.io/test/kit/rig"
)

// ensured is the reason of the event that tells a Service its address.
const ensured = "EnsuredLoadBalancer"

// useKubeVIP has the ConfigMap of kube-vip's cloud provider for one test, with one
// range for all namespaces, and the environment of that in controllers.
func useKubeVIP(t *testing.T, addresses string) {
	t.Helper()
	theRig.Clean(t)
	t.Setenv(config.EnvKubeVIPNamespace, metav1.NamespaceDefault)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubevip"}, Data: map[string]string{"range-global": addresses}}
	createAll(t, cm)
	t.Cleanup(func() { _ = theRig.Client.Delete(context.Background(), cm) })
}

// provider are the options of a controller that stands in for kube-vip's cloud
// provider, with a name of its own in what the API server notes.
func provider(o *controller.Options) {
	where := map[string]string{config.EnvKubeVIPNamespace: metav1.NamespaceDefault}
	env := func(name string) string { return where[name] }
	o.Config, _ = config.FromEnv(env)
	setup.Add(o, setup.Names{MetalLBNamespace: rig.MetalLBNamespace, KubeVIPMap: config.KubeVIPMapFrom(env)})
	o.REST.UserAgent = "fairlead-provider"
}

// providerWrites counts what providers wrote, and were not refused: Services and
// events by the name of the Service.
func providerWrites(t testing.TB) (services, events map[string]int) {
	t.Helper()
	counts, err := theRig.API.WriteCounts()
	if err != nil {
		t.Fatal(err)
	}
	services, events = map[string]int{}, map[string]int{}
	for w, n := range counts {
		switch name, _, _ := strings.Cut(w.Name, "."); {
		case !strings.HasPrefix(w.UserAgent, "fairlead-provider") || w.Code >= http.StatusMultipleChoices:
		case w.Resource == "services":
			services[w.Name] += n
		case w.Resource == "events":
			events[name] += n
		}
	}
	return services, events
}

// onceEach waits until the last one's event is in the server's record, and checks
// that all were written once and have one event.
func onceEach(t testing.TB, services []*corev1.Service, last *corev1.Service) {
	t.Helper()
	var writes, events map[string]int
	rig.Eventually(t, "the audit log has the last event", func() error {
		if writes, events = providerWrites(t); events[last.Name] == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, s := range append(services, last) {
		if writes[s.Name] != 1 || events[s.Name] != 1 {
			t.Errorf("service %s was written %d times and has %d events", s.Name, writes[s.Name], events[s.Name])
		}
	}
}

// TestKubeVIPOneWrite counts on the server: one write and one event for each Service
// that kube-vip is to announce, and none by a controller that starts anew, while
// somebody in kube-vip's place writes their statuses.
func TestKubeVIPOneWrite(t *testing.T) {
	useKubeVIP(t, "10.60.0.1-10.60.0.100")
	services := create(t, "provided-once", 50)
	stop := theRig.Start(t, provider)
	for i, s := range services {
		rig.Eventually(t, s.Name+" is told its address", func() error { return toldReason(s, ensured) })
		if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			t.Fatal(err)
		}
		publish(t, s, addressesOf(s)[0].String())
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"kube-vip.io/vipHost":"worker-%d"}}}`, i%3)
		if err := theRig.Client.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	theRig.Start(t, provider)
	last := create(t, "provided-last", 1)[0]
	rig.Eventually(t, "the last one is told its address", func() error { return toldReason(last, ensured) })
	settled(t, "")
	onceEach(t, services, last)
}

// TestKubeVIPConflictingWriters changes labels, annotations and statuses of Services
// all the time while they get their addresses: of all our tries one is done.
func TestKubeVIPConflictingWriters(t *testing.T) {
	useKubeVIP(t, "10.61.0.1-10.61.0.100")
	ctx, cancel := context.WithCancel(t.Context())
	services := create(t, "provided-busy", 20)
	var writers sync.WaitGroup
	for _, s := range services {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				slower(ctx, n)
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/writer":"%d"},"labels":{"writer":"%d"}}}`, n, n))
				write := theRig.Client.Patch
				if n%3 == 0 {
					write = func(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
						return theRig.Client.Status().Patch(ctx, o, p)
					}
				}
				if err := write(context.Background(), s.DeepCopy(), patch); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	theRig.Start(t, provider)
	settled(t, "")
	for _, s := range services {
		rig.Eventually(t, s.Name+" is told its address", func() error { return toldReason(s, ensured) })
	}
	cancel()
	writers.Wait()
	last := create(t, "provided-rest", 1)[0]
	settled(t, "")
	onceEach(t, services, last)
}

// TestKubeVIPLostAnswers serves Services over a bad line, and lets them go again:
// every one gets its address and is told of it, once; no address is lost or given
// twice on the way, and none is kept.
func TestKubeVIPLostAnswers(t *testing.T) {
	useKubeVIP(t, "10.62.0.1-10.62.0.100")
	line := &badLine{kind: "/services/"}
	l := keepLedger(t)
	theRig.Start(t, provider, line.use)
	services := create(t, "provided-line", 100)
	settled(t, "")
	last := services[len(services)-1]
	for _, s := range services {
		rig.Eventually(t, s.Name+" is told its address", func() error { return toldReason(s, ensured) })
	}
	onceEach(t, services[:len(services)-1], last)
	for _, s := range services {
		if err := theRig.Client.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	create(t, "provided-next", 100)
	settled(t, "")
	l.close(t)
	if len(l.doubles) > 0 || len(l.lost) > 0 {
		t.Errorf("addresses with two holders: %v; taken away: %v", l.doubles, l.lost)
	}
	if line.lost.Load() == 0 || line.silent.Load() == 0 {
		t.Errorf("the line was too good: %d writes and %d answers lost", line.lost.Load(), line.silent.Load())
	}
}

// TestKilledWithKubeVIP kills the controller while Services come and go that kube-vip
// is to announce, and the ConfigMap changes: none stays that was deleted, and the
// whole range can be had afterwards.
func TestKilledWithKubeVIP(t *testing.T) {
	const all = "10.63.0.1-10.63.0.200"
	useKubeVIP(t, all)
	l := keepLedger(t)
	// In kube-vip's place a controller waits for the Lease of the one before it, unless
	// told otherwise: there would be few kills in the midst of anything.
	alone := []string{"--leader-elect=false"}
	storm{name: "provided-storm", writers: 3, most: 20, kills: 50, args: alone, meanwhile: func(ctx context.Context) {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			<-tick.C
			patch := fmt.Appendf(nil, `{"data":{"range-global":"10.63.0.%d-10.63.0.200","interface-global":"eth%d"}}`, 1+n%50, n%2)
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubevip"}}
			if err := theRig.Client.Patch(context.Background(), cm, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Errorf("write: %v", err)
			}
		}
	}}.rage(t, l)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubevip"}}
	if err := theRig.Client.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"range-global":"`+all+`"}}`))); err != nil {
		t.Fatal(err)
	}
	held := settled(t, "")
	l.survived(t)
	create(t, "provided-whole", 200-len(held))
	settled(t, "")
	var list corev1.ServiceList
	if err := theRig.Client.List(t.Context(), &list, client.MatchingLabels{"implementation": "kube-vip"}); err != nil {
		t.Fatal(err)
	}
	if n := len(list.Items); n != 200 {
		t.Errorf("%d of 200 are for kube-vip", n)
	}
}
