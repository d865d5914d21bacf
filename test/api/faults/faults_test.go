// Package faults breaks things under the controller, with real processes and a
// real API server, and watches that no address is ever lost, leaked or given
// twice.
package faults

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	os.Exit(rig.Main(m, sandbox.Options{Audit: true, NoControllers: true}, &theRig))
}

func createPool(t testing.TB, name string, addresses ...v1alpha1.Span) *v1alpha1.Pool {
	t.Helper()
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PoolSpec{Addresses: addresses}}
	if err := theRig.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func newService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{
			Type:                          corev1.ServiceTypeLoadBalancer,
			AllocateLoadBalancerNodePorts: ptr.To(false),
			Selector:                      map[string]string{"app": name},
			Ports:                         []corev1.ServicePort{{Port: 80}},
		},
	}
}

// create makes n Services prefix-0, prefix-1, …
func create(t testing.TB, prefix string, n int) []*corev1.Service {
	t.Helper()
	var out []*corev1.Service
	for i := range n {
		s := newService(fmt.Sprintf("%s-%d", prefix, i))
		if err := theRig.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// addressesOf returns the addresses that s says it has: those that are written on it for
// kube-vip to announce, or those in its status.
func addressesOf(s *corev1.Service) (out []netip.Addr) {
	list, given := s.Annotations["kube-vip.io/loadbalancerIPs"]
	if !given {
		return kubeapi.Service(s).Published()
	}
	for text := range strings.SplitSeq(list, ",") {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// settled waits until every LoadBalancer Service has exactly one address, all
// different, and the pool, if one is named, counts as many; it returns them by
// Service.
func settled(t testing.TB, pool string) map[string]netip.Addr {
	t.Helper()
	var out map[string]netip.Addr
	rig.Eventually(t, "every Service has an address of its own", func() error {
		var list corev1.ServiceList
		if err := theRig.Client.List(context.Background(), &list); err != nil {
			return err
		}
		out = map[string]netip.Addr{}
		holder := map[netip.Addr]string{}
		for i := range list.Items {
			s := &list.Items[i]
			if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}
			has := addressesOf(s)
			if s.DeletionTimestamp != nil {
				return fmt.Errorf("service %s is not gone yet", s.Name)
			}
			if len(has) != 1 {
				return fmt.Errorf("service %s has %v", s.Name, has)
			}
			if other := holder[has[0]]; other != "" {
				return fmt.Errorf("services %s and %s have %s", s.Name, other, has[0])
			}
			holder[has[0]], out[s.Name] = s.Name, has[0]
		}
		if pool == "" {
			return nil
		}
		used, err := countUsed(pool)
		if err != nil {
			return err
		}
		if want := fmt.Sprint(len(out)); used != want {
			return fmt.Errorf("pool %s counts %s used, Services have %s", pool, used, want)
		}
		return nil
	})
	return out
}

// countUsed returns how many addresses the status of a pool says are used, be it
// ours or MetalLB's.
func countUsed(pool string) (string, error) {
	var ours v1alpha1.Pool
	err := theRig.Client.Get(context.Background(), types.NamespacedName{Name: pool}, &ours)
	if !apierrors.IsNotFound(err) {
		return ours.Status.Used, err
	}
	var theirs metallb.IPAddressPool
	err = theRig.Client.Get(context.Background(), types.NamespacedName{Namespace: rig.MetalLBNamespace, Name: pool}, &theirs)
	return fmt.Sprint(theirs.Status.AssignedIPv4), err
}

// ledger watches all Services from now on, and notes every moment at which two
// have one address, and every address that a Service loses.
type ledger struct {
	holders map[netip.Addr]map[string]types.UID
	has     map[string]netip.Addr
	doubles []string
	since   map[netip.Addr]time.Time // when an address got its second holder
	longest time.Duration            // for which one had two
	lost    []string
	changes chan struct{} // one value per change of addresses, as far as there is room
	seen    chan string   // the names of Services that come to end the watch
	stop    func()
	ended   chan struct{}
}

// lastPage begins the names of Services that end a ledger.
const lastPage = "last-page-"

// keepLedger starts watching; close ends it.
func keepLedger(t testing.TB) *ledger {
	t.Helper()
	l := &ledger{holders: map[netip.Addr]map[string]types.UID{}, has: map[string]netip.Addr{}, since: map[netip.Addr]time.Time{},
		changes: make(chan struct{}, 10_000), seen: make(chan string, 1), ended: make(chan struct{})}
	w, err := theRig.Client.Watch(context.Background(), &corev1.ServiceList{}, &client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.stop = w.Stop
	go func() {
		defer close(l.ended)
		for e := range w.ResultChan() {
			s, ok := e.Object.(*corev1.Service)
			switch {
			case !ok:
			case strings.HasPrefix(s.Name, lastPage):
				select {
				case l.seen <- s.Name:
				default:
				}
			default:
				l.note(s, string(e.Type) == "DELETED")
			}
		}
	}()
	return l
}

// close ends the ledger when it has seen all that has happened so far: a watch may be
// late. What comes last is a Service that nobody serves.
func (l *ledger) close(t testing.TB) {
	t.Helper()
	end := newService(lastPage + rand.Text()[:8])
	end.Name = strings.ToLower(end.Name)
	end.Spec.Type, end.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil
	if err := theRig.Client.Create(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.seen:
	case <-l.ended:
		t.Error("the watch ended before the test")
	}
	l.stop()
	<-l.ended
	if err := theRig.Client.Delete(t.Context(), end); err != nil {
		t.Error(err)
	}
}

func (l *ledger) note(s *corev1.Service, gone bool) {
	var now netip.Addr
	if has := addressesOf(s); len(has) > 0 && !gone {
		now = has[0]
	}
	before := l.has[s.Name]
	if before == now {
		return
	}
	if before.IsValid() {
		delete(l.holders[before], s.Name)
		if began, ok := l.since[before]; ok && len(l.holders[before]) < 2 {
			l.longest = max(l.longest, time.Since(began))
			delete(l.since, before)
		}
		if !gone {
			l.lost = append(l.lost, fmt.Sprintf("%s: %s → %s", s.Name, before, now))
		}
	}
	delete(l.has, s.Name)
	if now.IsValid() {
		if l.holders[now] == nil {
			l.holders[now] = map[string]types.UID{}
		}
		l.holders[now][s.Name] = s.UID
		l.has[s.Name] = now
		if len(l.holders[now]) > 1 {
			l.doubles = append(l.doubles, fmt.Sprintf("%s: %v", now, l.holders[now]))
			if _, known := l.since[now]; !known {
				l.since[now] = time.Now()
			}
		}
	}
	select {
	case l.changes <- struct{}{}:
	default:
	}
}
