package faults

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// publish writes an address into a Service's status by hand.
func publish(t testing.TB, s *corev1.Service, address string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q,"ipMode":"VIP"}]}}}`, address)
	if err := theRig.Client.Status().Patch(t.Context(), s, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// TestTwoHolders finds one address on two Services: the older keeps it, the
// younger gets another, and both are told.
func TestTwoHolders(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.3.0.0/28")
	both := create(t, "holder", 2)
	older, younger := both[0], both[1]
	if b, a := both[1].CreationTimestamp, both[0].CreationTimestamp; a.Equal(&b) && both[1].UID < both[0].UID {
		older, younger = younger, older
	}
	publish(t, older, "10.3.0.5")
	publish(t, younger, "10.3.0.5")
	theRig.Start(t)
	has := settled(t, "edge")
	if want := netip.MustParseAddr("10.3.0.5"); has[older.Name] != want || has[younger.Name] == want {
		t.Errorf("older %s has %s, younger %s has %s", older.Name, has[older.Name], younger.Name, has[younger.Name])
	}
	for s, code := range map[*corev1.Service]lb.Code{older: lb.AddressContested, younger: lb.AddressInUse} {
		rig.Eventually(t, fmt.Sprintf("%s is told %s", s.Name, code), func() error { return told(s, code) })
	}
}

func told(s *corev1.Service, code lb.Code) error {
	list, err := theRig.Kube.CoreV1().Events(s.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	var got []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == s.UID {
			if e.Reason == string(code) {
				return nil
			}
			got = append(got, e.Reason)
		}
	}
	return fmt.Errorf("events are %v", got)
}

// TestTwoControllersAtOnce lets two controllers without leader election serve
// the same Services. Two may briefly have one address; all have their own in the
// end, nothing leaks, and the two come to rest.
func TestTwoControllersAtOnce(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.4.0.0/24")
	theRig.Start(t)
	theRig.Start(t)
	l := keepLedger(t)
	var creators sync.WaitGroup
	for w := range 8 {
		creators.Go(func() { create(t, fmt.Sprintf("rival-%d", w), 30) })
	}
	creators.Wait()
	settled(t, "edge")
	create(t, "rest", 256-240)
	first := settled(t, "edge")
	l.close(t)
	t.Logf("%d times an address had two holders for a moment, at most for %s", len(l.doubles), l.longest.Round(time.Millisecond))
	if len(l.since) > 0 {
		t.Errorf("addresses with two holders: %v", l.since)
	}
	if again := settled(t, "edge"); fmt.Sprint(first) != fmt.Sprint(again) {
		t.Error("addresses still move")
	}
}

// slower waits a little longer before each write: writers that are faster than a slow
// machine would else win for ever.
func slower(ctx context.Context, n int) {
	select {
	case <-time.After(time.Duration(n) * time.Millisecond):
	case <-ctx.Done():
	}
}

// TestConflictingWriters changes labels and annotations of Services all the time
// while they get their addresses.
func TestConflictingWriters(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.5.0.0/26")
	ctx, cancel := context.WithCancel(t.Context())
	services := create(t, "busy", 20)
	var writers sync.WaitGroup
	for w, s := range services {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				slower(ctx, n)
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/writer-%d":"%d"}}}`, w%3, n)
				if err := theRig.Client.Patch(context.Background(), s.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	theRig.Start(t)
	settled(t, "edge")
	cancel()
	writers.Wait()
	settled(t, "edge")
}

// TestLeaderKilled kills the leading one of two replicas: the other takes over,
// and gives nobody an address that somebody has.
func TestLeaderKilled(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.6.0.0/26")
	binary := tree.Binary(t, "fairlead")
	elect := []string{"--leader-elect", "--leader-elect-namespace", metav1.NamespaceDefault}
	leader := theRig.Launch(t, binary, elect...)
	create(t, "first", 20)
	before := settled(t, "edge")
	theRig.Launch(t, binary, elect...)
	l := keepLedger(t)
	leader.Kill()
	create(t, "second", 20)
	after := settled(t, "edge")
	l.close(t)
	for name, address := range before {
		if after[name] != address {
			t.Errorf("service %s had %s, has %s", name, address, after[name])
		}
	}
	if len(l.doubles) > 0 {
		t.Errorf("addresses with two holders: %v", l.doubles)
	}
}

// TestClassNotOursIsNeverWritten watches the server's own record of writes.
func TestClassNotOursIsNeverWritten(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.7.0.0/28")
	theRig.Start(t)
	other := newService("foreign")
	class := "example.com/other"
	other.Spec.LoadBalancerClass = &class
	if err := theRig.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	publish(t, other, "10.7.0.0")
	ours := create(t, "ours", 1)[0]
	rig.Eventually(t, "our Service is told its address", func() error { return told(ours, lb.Ready) })
	counts, err := theRig.API.WriteCounts()
	if err != nil {
		t.Fatal(err)
	}
	for w, n := range counts {
		if w.Name == other.Name && w.Resource == "services" && w.Verb == "patch" && w.Subresource == "status" && n > 1 {
			t.Errorf("%d writes: %+v", n, w)
		}
	}
	var now corev1.Service
	if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(other), &now); err != nil {
		t.Fatal(err)
	}
	if len(now.Annotations) > 0 || len(now.Status.Conditions) > 0 || len(now.Finalizers) > 0 || fmt.Sprint(kubeapi.Service(&now).Published()) != "[10.7.0.0]" {
		t.Errorf("touched: %+v", now)
	}
}
