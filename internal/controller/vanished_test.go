package controller

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// vanisher is a backend that removes what deleted Services had, if it can.
type vanisher struct {
	forgetful
	err     error
	removed []string
}

func (v *vanisher) Vanished(_ context.Context, key types.NamespacedName) error {
	if v.err == nil {
		v.removed = append(v.removed, key.Name)
	}
	return v.err
}

// What a deleted Service had is removed before its address is free, and is tried again
// until it is. Services that the backend never saw are of no concern to it.
func TestDeletedServiceVanishesFromBackend(t *testing.T) {
	b := &vanisher{err: errors.New("away")}
	c := &services{common: commonOf(classesOf(config.Default(), nil), objectsOf(t), nil), name: config.Announce, backend: &Backend{Backend: b}}
	web := kubeapi.Service(serviceOf("web", "", false))
	address := netip.MustParseAddr("192.0.2.7")
	c.ledger.settle(lb.Request{Service: web.Key, UID: web.UID, Families: []lb.Family{lb.IPv4}, Evidence: lb.Proven}, []netip.Addr{address})
	c.memos.of(web, nil, time.Now())
	request := reconcile.Request{NamespacedName: web.Key}
	if _, err := c.Reconcile(t.Context(), request); err == nil || !c.memos.knows(web.Key) {
		t.Errorf("forgotten although it was not removed: %v", err)
	}
	holds := func() bool { _, known := c.ledger.alloc.Verdict(web.Key); return known }
	if !holds() {
		t.Error("its address is free although it was not removed")
	}
	b.err = nil
	for _, name := range []string{"web", "stranger"} {
		request.Name = name
		if _, err := c.Reconcile(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
	if len(b.removed) != 1 || b.removed[0] != "web" || len(b.forgot) != 1 || holds() {
		t.Errorf("removed %v, forgot %v", b.removed, b.forgot)
	}
}

// What was made for a Service goes also if the Service is another backend's now.
func TestServiceOfAnotherClassVanishesFromBackend(t *testing.T) {
	b := &vanisher{}
	conf := &config.Configuration{Classes: []config.Class{{Name: "", Backend: "one"}, {Name: "two", Backend: "two"}}}
	web := serviceOf("web", "two", false)
	c := commonOf(classesOf(conf, map[config.Backend]backend.Backend{"one": b, "two": &forgetful{}}), objectsOf(t, web), nil)
	svc := &services{common: c, name: "one", backend: c.classes.backends["one"]}
	s := kubeapi.Service(web)
	request := reconcile.Request{NamespacedName: s.Key}
	b.err = errors.New("away")
	if result, err := svc.Reconcile(t.Context(), request); err != nil || result.RequeueAfter == 0 {
		t.Errorf("a Service that it never had: %+v, %v", result, err)
	}
	svc.memos.of(s, nil, time.Now())
	if _, err := svc.Reconcile(t.Context(), request); err == nil || !svc.memos.knows(s.Key) {
		t.Errorf("forgotten although it was not removed: %v", err)
	}
	b.err = nil
	if _, err := svc.Reconcile(t.Context(), request); err != nil || len(b.removed) != 1 || svc.memos.knows(s.Key) {
		t.Errorf("removed %v, %v", b.removed, err)
	}
}

// A Service from pools that is not served any more holds its address until what was made
// for it is gone, and in a dry run.
func TestAddressIsFreeWhenNothingIsLeft(t *testing.T) {
	b := &vanisher{err: errors.New("away")}
	web := serviceOf("web", "", true, "192.0.2.7")
	web.Spec.Type = corev1.ServiceTypeClusterIP
	web.Annotations = map[string]string{native.AnnotationDryRun: "true"}
	conf := &config.Configuration{Classes: []config.Class{{Backend: "rows", Pools: []lb.Dialect{lb.Native}}}}
	objects := objectsOf(t, web)
	c := commonOf(classesOf(conf, map[config.Backend]backend.Backend{"rows": b}), objects, fake.NewClientset(web.DeepCopy()))
	svc := &services{common: c, name: "rows", backend: c.classes.backends["rows"]}
	svc.backend.Plans = true
	s := kubeapi.Service(web)
	c.ledger.settle(lb.Request{Service: s.Key, UID: s.UID, Families: []lb.Family{lb.IPv4}, Evidence: lb.Proven}, []netip.Addr{netip.MustParseAddr("192.0.2.7")})
	request := reconcile.Request{NamespacedName: s.Key}
	if _, err := svc.Reconcile(t.Context(), request); err != nil || !c.ledger.knows(s.Key) {
		t.Errorf("a dry run gives the address back: %v", err)
	}
	web.Annotations = nil
	if err := objects.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Reconcile(t.Context(), request); err == nil || !c.ledger.knows(s.Key) || len(told(c.events)) > 0 {
		t.Errorf("its address is free although it was not removed: %v", err)
	}
	b.err = nil
	if _, err := svc.Reconcile(t.Context(), request); err != nil || c.ledger.knows(s.Key) || len(b.removed) != 1 || len(told(c.events)) != 1 {
		t.Errorf("removed %v, %v", b.removed, err)
	}
}
