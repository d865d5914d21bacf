// Package metallb says on objects of MetalLB's kinds how they are used: numbers and
// conditions of pools and advertisements, the ConfigurationState of the controller,
// and metrics under MetalLB's names. It changes nothing else, and decides nothing.
package metallb

import (
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ipam"
)

// component is the field manager of our writes.
const component = "fairlead"

// Reporter says on objects of MetalLB's kinds how full they are and whether they are
// used. Where the definitions are MetalLB's own, the API server drops the conditions,
// and perhaps the numbers: its answers tell.
type Reporter struct {
	cache   client.Reader
	client  client.Client
	told    *controller.Told
	log     *slog.Logger
	reading func() *metallb.Reading
	routing func() controller.Routing
	state   configurationState

	// stale: some object is refused, or has no effect.
	stale  atomic.Bool
	loaded func() bool
	usage  func() []ipam.PoolUsage

	updates, failures prometheus.Counter

	// Kinds of whose status the API server drops the numbers, or the conditions.
	dropsNumbers, dropsConditions map[string]bool
}

var (
	_ controller.Reporter  = (*Reporter)(nil)
	_ controller.Counter   = (*Reporter)(nil)
	_ prometheus.Collector = (*Reporter)(nil)
)

// NewReporter reports on objects in namespace. pod, which may be nil, is the
// controller's if it is there: what the controller writes about itself goes with it.
func NewReporter(t controller.Tools, namespace string, pod *metav1.OwnerReference) *Reporter {
	return &Reporter{
		cache: t.Cache, client: t.Client, told: t.Told, log: t.Log, loaded: t.Loaded, usage: t.Usage,
		reading: func() *metallb.Reading {
			r, _ := t.Reading(metallb.Name).(*metallb.Reading)
			return r
		},
		routing: t.Routing,
		state:   newConfigurationState(t, namespace, pod),
		updates: prometheus.NewCounter(metallbUpdatesOpts), failures: prometheus.NewCounter(metallbErrorsOpts),
		dropsNumbers: map[string]bool{}, dropsConditions: map[string]bool{},
	}
}

// Count counts a reconcile.
func (m *Reporter) Count(err error) {
	m.updates.Inc()
	if err != nil {
		m.failures.Inc()
	}
}

func objectOf(kind schema.GroupVersionKind) client.Object {
	switch kind {
	case metallb.PoolKind:
		return &metallbapi.IPAddressPool{}
	case metallb.AdvertisementKind:
		return &metallbapi.L2Advertisement{}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}
