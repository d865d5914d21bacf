package controller

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/backend"
	"fairlead.io/internal/backend/announce"
	provider "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// cloud is the name of a backend that needs no pools.
const cloud config.Backend = "cloud"

var quiet = slog.New(slog.DiscardHandler)

// idle is a backend that does nothing, and has nothing besides.
type idle struct{}

func (idle) Sync(context.Context, lb.Want) (lb.Outcome, error) { return lb.Outcome{}, nil }
func (idle) Forget(types.UID)                                  {}

// speaker is one that speaks a dialect.
type speaker struct {
	idle
	dialect lb.Dialect
}

func (s speaker) Words() lb.Dialect { return s.dialect }

// keeper is one that has pools of its own.
type keeper struct {
	speaker
	pools func(context.Context) ([]lb.Pool, error)
}

func (k keeper) Pools(ctx context.Context, _ []lb.Service) ([]lb.Pool, error) { return k.pools(ctx) }

var (
	_ backend.Backend   = idle{}
	_ backend.Speaker   = speaker{}
	_ backend.Inventory = keeper{}
)

// classesOf serves a configuration with the backends that there are, and those
// that are given.
func classesOf(cfg *config.Configuration, more map[config.Backend]backend.Backend) *classes {
	dialects := []compat.Dialect{native.Dialect{}, metallb.Dialect{}, kubevip.Dialect{}}
	c := &classes{config: cfg, dialects: dialects, backends: map[config.Backend]*Backend{}}
	all := map[config.Backend]backend.Backend{config.Announce: &announce.Backend{Dialects: dialects}, config.KubeVIP: provider.Backend{}}
	for name, b := range more {
		all[name] = b
	}
	for _, class := range cfg.Classes {
		if b := all[class.Backend]; b != nil {
			c.backends[class.Backend] = &Backend{Backend: b}
		}
	}
	return c
}

// commonOf is what reconcilers share, over objects in a cache and an API server.
func commonOf(c *classes, objects client.Reader, api kubernetes.Interface) *common {
	out := &common{cache: objects, client: api, classes: c, knownElsewhere: func(types.NamespacedName, config.Backend) bool { return false }, ledger: newLedger(func([]types.NamespacedName) {}), log: quiet,
		events: newEvents(api, quiet, func() bool { return false }), waited: prometheus.NewHistogram(timeToAddressOpts)}
	out.readings = newReadings(c, nil, func(compat.Dialect, lb.Warning) {})
	out.readings.cache = objects
	return out
}

// objectsOf is a cache with objects.
func objectsOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := newScheme(metallbapi.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	return crfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Service{}).Build()
}

// serviceOf is a Service of a class with addresses in its status; attested, they
// were written by us.
func serviceOf(name, class string, attested bool, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv4Protocol}
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	text := "It has"
	for _, ip := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		text += " " + ip + "."
	}
	if attested {
		s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Status: metav1.ConditionTrue, Reason: string(lb.Ready), Message: text}}
	}
	return s
}

// told are the events that wait, as reason and message.
func told(e *events) (out []string) {
	for w, ok := e.next(); ok; w, ok = e.next() {
		out = append(out, w.event.Reason+": "+w.event.Message)
	}
	return out
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

func (c readCache) WaitForCacheSync(context.Context) bool { return true }
