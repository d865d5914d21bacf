package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// complaining is a reading that warns of objects.
type complaining struct {
	compat.Reading
	warnings []lb.Warning
}

func (c complaining) Warnings() []lb.Warning { return c.warnings }

// What is wrong with an object is told once while it is so, and again if it is so
// again.
func TestWarningsAreToldOnce(t *testing.T) {
	var told []string
	r := newReadings(classesOf(config.Default(), nil), nil, func(d compat.Dialect, w lb.Warning) {
		told = append(told, string(d.Name())+" "+string(w.About.UID)+": "+w.Reason.Text)
	})
	warning := func(uid types.UID, text string) lb.Warning {
		return lb.Warning{About: lb.Object{Kind: "ConfigMap", Name: "x", UID: uid}, Reason: lb.Reason{Code: lb.PoolInvalid, Text: text}}
	}
	for _, step := range []struct {
		name     string
		warnings []lb.Warning
		want     []string
	}{
		{"nothing", nil, nil},
		{"one", []lb.Warning{warning("1", "this")}, []string{"native 1: this"}},
		{"still", []lb.Warning{warning("1", "this")}, nil},
		{"one more", []lb.Warning{warning("1", "that"), warning("1", "this")}, []string{"native 1: that"}},
		{"of another object", []lb.Warning{warning("1", "that"), warning("1", "this"), warning("2", "this")}, []string{"native 2: this"}},
		{"one less", []lb.Warning{warning("1", "that")}, nil},
		{"again", []lb.Warning{warning("1", "that"), warning("1", "this")}, []string{"native 1: this"}},
		{"twice in one go", []lb.Warning{warning("3", "this"), warning("3", "this")}, []string{"native 3: this"}},
		{"of what is not there", []lb.Warning{warning("", "this")}, nil},
	} {
		told = nil
		r.warn(compat.Readings{{Dialect: native.Dialect{}, Reading: complaining{warnings: step.warnings}}})
		if !slices.Equal(told, step.want) {
			t.Errorf("%s: told %q, want %q", step.name, told, step.want)
		}
	}
}

// brokenCache is one that may fail to list anything.
type brokenCache struct {
	client.Reader
	fails bool
}

func (c *brokenCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.fails {
		return errors.New("away")
	}
	return c.Reader.List(ctx, list, opts...)
}

// Before anything was read, dialects say what they say without objects. What was read
// last stays where something cannot be read now.
func TestReadingsStay(t *testing.T) {
	objects := objectsOf(t, &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}})
	broken := &brokenCache{Reader: objects}
	c := commonOf(classesOf(config.Default(), nil), broken, nil)
	if now := c.readings.current(); len(now) != len(c.classes.dialects) || len(now.Pools()) != 0 {
		t.Errorf("before anything was read: %v", now)
	}
	p := &pools{common: c, changed: func([]lb.Dialect) {}}
	if _, err := p.Reconcile(t.Context(), reconcile.Request{}); err != nil || len(c.ledger.usage()) != 1 {
		t.Errorf("%v, pools %v", err, c.ledger.usage())
	}
	broken.fails = true
	if _, err := p.Reconcile(t.Context(), reconcile.Request{}); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("error %v", err)
	}
	if n := len(c.ledger.usage()); n != 1 || len(c.readings.current().Pools()) != 1 {
		t.Errorf("the ledger has %d pools, readings have %v", n, c.readings.current().Pools())
	}
}

// Kinds of a dialect that no class uses are not watched, and so not read.
func TestReadingsOfWhatIsUsed(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}, Data: map[string]string{kubevip.KeyCIDR + "global": "192.0.2.0/24"}}
	objects := objectsOf(t, cm)
	for want, cfg := range map[int]*config.Configuration{0: cfg, 1: config.Default()} {
		classes := classesOf(cfg, nil)
		classes.dialects[2] = kubevip.Dialect{ConfigMap: client.ObjectKeyFromObject(cm)}
		c := commonOf(classes, objects, fake.NewClientset())
		if pools, err := c.readings.read(t.Context()); err != nil || len(pools) != want {
			t.Errorf("%d pools, want %d; %v", len(pools), want, err)
		}
	}
}

// Dialects that say something else about Services now are told, and no others.
func TestPoolsTellWhatChanged(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip", UID: "u"}, Data: map[string]string{kubevip.KeyShare + "global": "true"}}
	objects := objectsOf(t)
	classes := classesOf(config.Default(), nil)
	classes.dialects[2] = kubevip.Dialect{ConfigMap: client.ObjectKeyFromObject(cm)}
	var changed []lb.Dialect
	p := &pools{common: commonOf(classes, objects, fake.NewClientset()), changed: func(d []lb.Dialect) { changed = append(changed, d...) }}
	reconciled := func() []lb.Dialect {
		changed = nil
		if _, err := p.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if got := reconciled(); len(got) > 0 {
		t.Errorf("nothing is there: %v", got)
	}
	if err := objects.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	if got := reconciled(); !slices.Equal(got, []lb.Dialect{kubevip.Name}) {
		t.Errorf("the ConfigMap has come: %v", got)
	}
	if err := objects.Create(t.Context(), &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}); err != nil {
		t.Fatal(err)
	}
	if got := reconciled(); len(got) > 0 {
		t.Errorf("a pool more: %v", got)
	}
}
