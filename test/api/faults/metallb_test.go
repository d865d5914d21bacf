package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/charts"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
)

// useMetalLB has MetalLB's kinds for one test.
func useMetalLB(t testing.TB, crds []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	theRig.Clean(t)
	theRig.InstallMetalLB(t, crds...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
}

func inMetalLB(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: name}
}

func ipAddressPool(name string, addresses ...string) *metallb.IPAddressPool {
	return &metallb.IPAddressPool{ObjectMeta: inMetalLB(name), Spec: metallb.IPAddressPoolSpec{Addresses: addresses}}
}

func advertisement(name string, pools ...string) *metallb.L2Advertisement {
	return &metallb.L2Advertisement{ObjectMeta: inMetalLB(name), Spec: metallb.L2AdvertisementSpec{IPAddressPools: pools}}
}

func createAll(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := theRig.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// stateIs waits until the ConfigurationState of the controller says this, and
// returns its summary.
func stateIs(t testing.TB, want metallb.Result) (summary string) {
	t.Helper()
	rig.Eventually(t, fmt.Sprintf("the configuration is %s", want), func() error {
		var s metallb.ConfigurationState
		if err := theRig.Client.Get(context.Background(), types.NamespacedName{Namespace: rig.MetalLBNamespace, Name: "controller"}, &s); err != nil {
			return err
		}
		if summary = s.Status.ErrorSummary; s.Status.Result != want {
			return fmt.Errorf("it is %s: %s", s.Status.Result, summary)
		}
		return nil
	})
	return summary
}

// metallbWrites counts the writes of MetalLB's objects by controllers, by kind.
func metallbWrites(t testing.TB) map[string]int {
	t.Helper()
	counts, err := theRig.API.WriteCounts()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for w, n := range counts {
		switch w.Resource {
		case "ipaddresspools", "l2advertisements":
			if w.Subresource == "status" {
				out[w.Resource] += n
			}
		case "configurationstates":
			if w.Verb != "deletecollection" {
				out[w.Resource] += n
			}
		}
	}
	return out
}

// rounds lets the statuses be looked after at least twice: a Service that comes
// changes the count of a pool of ours, which is written in the same round.
func rounds(t testing.TB, prefix string) {
	t.Helper()
	for i := range 3 {
		before, err := countUsed("ours")
		if err != nil {
			t.Fatal(err)
		}
		s := newService(fmt.Sprintf("%s-%d", prefix, i))
		s.Annotations = map[string]string{"fairlead.io/pool": "ours"}
		createAll(t, s)
		rig.Eventually(t, "the pool counts it", func() error {
			now, err := countUsed("ours")
			if err == nil && now == before {
				err = errors.New("not yet")
			}
			return err
		})
	}
}

// TestIdleWithMetalLB counts on the server that statuses of MetalLB's objects are
// written when they change and never again, whether the definitions have
// conditions or not, and that a controller which starts anew writes nothing, or
// learns from one write of each kind that there are none.
func TestIdleWithMetalLB(t *testing.T) {
	for name, test := range map[string]struct {
		crds    []*apiextensionsv1.CustomResourceDefinition
		another map[string]int // writes of another controller
	}{
		"ours":      {crds: charts.MetalLBCRDs()},
		"MetalLB's": {crds: rig.BareMetalLBCRDs(), another: map[string]int{"ipaddresspools": 1, "l2advertisements": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			useMetalLB(t, test.crds)
			createPool(t, "ours", "10.40.1.0/24")
			createAll(t, ipAddressPool("a", "10.40.0.0/28"), ipAddressPool("b", "10.40.0.16/28"), ipAddressPool("typo", "10.40.0.9-10.40.0.1"),
				advertisement("a", "a"), advertisement("all"))
			stop := theRig.Start(t)
			create(t, "idle", 3)
			rig.Eventually(t, "the pool counts them", func() error {
				n, err := countUsed("a")
				if err == nil && n != "3" {
					err = fmt.Errorf("it counts %s", n)
				}
				return err
			})
			stateIs(t, metallb.Invalid)
			rounds(t, "first")
			before := metallbWrites(t)
			rounds(t, "second")
			if now := metallbWrites(t); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("writes while nothing changes: %v, before %v", now, before)
			}
			stop()
			theRig.Start(t)
			rounds(t, "third")
			now := metallbWrites(t)
			for kind, n := range now {
				if n-before[kind] > test.another[kind] {
					t.Errorf("another controller wrote %s %d times", kind, n-before[kind])
				}
			}
		})
	}
}

// TestServicesOfMetalLBAreAdopted has Services as MetalLB leaves them: each is
// written once, and none moves.
func TestServicesOfMetalLBAreAdopted(t *testing.T) {
	useMetalLB(t, rig.BareMetalLBCRDs())
	createAll(t, ipAddressPool("lan", "10.41.0.0/24"))
	services := create(t, "adopted", 30)
	want := map[string]netip.Addr{}
	for i, s := range services {
		address := netip.AddrFrom4([4]byte{10, 41, 0, byte(200 - 3*i)})
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"metallb.io/ip-allocated-from-pool":"lan"}},"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, address)
		if err := theRig.Client.Status().Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		want[s.Name] = address
	}
	l := keepLedger(t)
	theRig.Start(t)
	create(t, "new", 10)
	has := settled(t, "lan")
	for _, s := range services {
		rig.Eventually(t, s.Name+" is told", func() error { return toldReason(s, "IPAllocated") })
		if has[s.Name] != want[s.Name] {
			t.Errorf("%s had %s, has %s", s.Name, want[s.Name], has[s.Name])
		}
	}
	l.close(t)
	if len(l.lost)+len(l.doubles) > 0 {
		t.Errorf("lost %v, with two holders %v", l.lost, l.doubles)
	}
	for name, n := range statusWrites(t, services, 2) {
		if n != 2 { // the test's own, and the controller's
			t.Errorf("%s was written %d times", name, n)
		}
	}
}

// statusWrites counts how often the statuses of Services were written. The server may
// note a write a little later than it can be seen: it waits for so many of each.
func statusWrites(t testing.TB, services []*corev1.Service, atLeast int) (writes map[string]int) {
	t.Helper()
	rig.Eventually(t, "the audit log has all writes", func() error {
		counts, err := theRig.API.WriteCounts()
		if err != nil {
			return err
		}
		writes = map[string]int{}
		for w, n := range counts {
			if w.Resource == "services" && w.Subresource == "status" && w.Code == http.StatusOK &&
				slices.ContainsFunc(services, func(s *corev1.Service) bool { return s.Name == w.Name }) {
				writes[w.Name] += n
			}
		}
		for _, s := range services {
			if writes[s.Name] < atLeast {
				return fmt.Errorf("it has %d of %s", writes[s.Name], s.Name)
			}
		}
		return nil
	})
	return writes
}

func toldReason(s *corev1.Service, reason string) error { return told(s, lb.Code(reason)) }

// TestLostAnswersOfStatuses writes the statuses of MetalLB's objects over a bad
// line: they come right, and problems are told of once.
func TestLostAnswersOfStatuses(t *testing.T) {
	useMetalLB(t, charts.MetalLBCRDs())
	line := &badLine{kind: "/metallb.io/"}
	theRig.Start(t, line.use)
	var broken []*metallb.IPAddressPool
	for i := range 10 {
		bad := ipAddressPool(fmt.Sprintf("bad-%d", i), fmt.Sprintf("10.43.%d.9-10.43.%d.1", i, i))
		broken = append(broken, bad)
		createAll(t, ipAddressPool(fmt.Sprintf("good-%d", i), fmt.Sprintf("10.42.%d.0/24", i)), bad, advertisement(fmt.Sprintf("ad-%d", i)))
	}
	create(t, "over-the-line", 20)
	settled(t, "good-0")
	for i := range 10 {
		rig.Eventually(t, "all say what they are", func() error {
			var good, bad metallb.IPAddressPool
			var ad metallb.L2Advertisement
			for name, o := range map[string]client.Object{fmt.Sprintf("good-%d", i): &good, fmt.Sprintf("bad-%d", i): &bad, fmt.Sprintf("ad-%d", i): &ad} {
				if err := theRig.Client.Get(context.Background(), types.NamespacedName{Namespace: rig.MetalLBNamespace, Name: name}, o); err != nil {
					return err
				}
			}
			if !meta.IsStatusConditionTrue(good.Status.Conditions, "Ready") || !meta.IsStatusConditionFalse(bad.Status.Conditions, "Ready") ||
				!meta.IsStatusConditionTrue(ad.Status.Conditions, "Ready") {
				return fmt.Errorf("%v, %v, %v", good.Status, bad.Status, ad.Status)
			}
			return nil
		})
	}
	stateIs(t, metallb.Invalid)
	if line.lost.Load() == 0 || line.silent.Load() == 0 {
		t.Errorf("the line was too good: %d writes and %d answers lost", line.lost.Load(), line.silent.Load())
	}
	for _, p := range broken {
		rig.Eventually(t, p.Name+" is told of once", func() error {
			list, err := theRig.Kube.CoreV1().Events(rig.MetalLBNamespace).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
			if err != nil {
				return err
			}
			if len(list.Items) != 1 || list.Items[0].Reason != string(lb.PoolInvalid) {
				return fmt.Errorf("%d events", len(list.Items))
			}
			return nil
		})
	}
}

// TestKilledWithMetalLB kills the controller while Services come and go in a pool
// of MetalLB's, and while somebody else writes that pool all the time.
func TestKilledWithMetalLB(t *testing.T) {
	useMetalLB(t, charts.MetalLBCRDs())
	pool := ipAddressPool("storm", "10.44.0.0/24")
	createAll(t, pool, advertisement("all"))
	l := keepLedger(t)
	storm{name: "metallb-storm", writers: 3, most: 20, kills: 20, meanwhile: func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			patch := fmt.Sprintf(`{"metadata":{"labels":{"writer":"%d"}},"status":{"assignedIPv4":%d,"availableIPv4":0,"assignedIPv6":0,"availableIPv6":0}}`, n, n)
			for _, write := range []func() error{
				func() error {
					return theRig.Client.Patch(context.Background(), pool.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
				},
				func() error {
					return theRig.Client.Status().Patch(context.Background(), pool.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
				},
			} {
				if err := write(); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		}
	}}.rage(t, l)
	held := settled(t, "storm")
	l.survived(t)
	create(t, "metallb-rest", 256-len(held))
	settled(t, "storm")
	stateIs(t, metallb.Valid)
}

// TestStartWithoutAPIServer starts controllers while the API server is away: that
// it says nothing of MetalLB's kinds must not be taken for an answer, or all
// Services would be out of pool.
func TestStartWithoutAPIServer(t *testing.T) {
	useMetalLB(t, charts.MetalLBCRDs())
	createAll(t, ipAddressPool("lan", "10.45.0.0/24"))
	stop := theRig.Start(t)
	create(t, "steady", 10)
	before := settled(t, "lan")
	stop()
	for round := range 3 {
		if err := theRig.API.Kill(); err != nil {
			t.Fatal(err)
		}
		stop := theRig.Start(t)
		if err := theRig.API.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		create(t, fmt.Sprintf("round-%d", round), 1)
		after := settled(t, "lan")
		stop()
		for name, address := range before {
			if after[name] != address {
				t.Errorf("round %d: %s had %s, has %s", round, name, address, after[name])
			}
		}
	}
	var list corev1.ServiceList
	if err := theRig.Client.List(t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	var services []*corev1.Service
	for i := range list.Items {
		if s := &list.Items[i]; s.Name != "kubernetes" {
			services = append(services, s)
		}
	}
	for name, n := range statusWrites(t, services, 1) {
		if n != 1 {
			t.Errorf("%s was written %d times", name, n)
		}
	}
}

// TestBrokenObjectsStopNothing creates good and broken objects in any order:
// what is good works, and what is said of the rest is the same.
func TestBrokenObjectsStopNothing(t *testing.T) {
	useMetalLB(t, rig.BareMetalLBCRDs())
	theRig.Start(t)
	var summary string
	for round := range 4 {
		theRig.Clean(t)
		objects := []client.Object{
			ipAddressPool("good", "10.46.0.0/28"),
			ipAddressPool("nonsense", "ten to twelve"),
			ipAddressPool("backwards", "10.47.0.9-10.47.0.1"),
			&metallb.IPAddressPool{ObjectMeta: inMetalLB("twice"), Spec: metallb.IPAddressPoolSpec{Addresses: []string{"10.48.0.0/24"},
				AllocateTo: &metallb.ServiceAllocation{Namespaces: []string{"a", "a"}}}},
			advertisement("good", "good"),
			advertisement("twice", "good", "good"),
			advertisement("future", "not-there-yet"),
			&metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "elsewhere"},
				Spec: metallb.IPAddressPoolSpec{Addresses: []string{"10.49.0.0/24"}}},
			newService(fmt.Sprintf("among-ruins-%d", round)),
		}
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		createAll(t, objects...)
		if has := settled(t, "good"); len(has) != 1 {
			t.Errorf("round %d: %v", round, has)
		}
		rig.Eventually(t, "all that is wrong is told", func() error {
			now := stateIs(t, metallb.Invalid)
			for _, one := range []string{"IPAddressPool default/elsewhere: ", "IPAddressPool metallb-system/backwards: ", "IPAddressPool metallb-system/nonsense: ",
				"IPAddressPool metallb-system/twice: ", "L2Advertisement metallb-system/twice: "} {
				if !strings.Contains(now, one) {
					return fmt.Errorf("nothing is said of %sin %s", one, now)
				}
			}
			if summary != "" && now != summary {
				return errors.New(now + ", before: " + summary)
			}
			summary = now
			return nil
		})
	}
	t.Log(summary)
}
