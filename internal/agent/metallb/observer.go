package metallb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// Options of an Observer.
type Options struct {
	REST *rest.Config
	Log  *slog.Logger
	Node string
	// Objects says whether status objects are written: the configuration has pools of
	// MetalLB's kinds. Metrics are there either way.
	Objects bool
	// Namespace of the objects.
	Namespace string
	// Pod of the agent, if it is in that namespace: the objects go with it.
	Pod      *metav1.OwnerReference
	Registry prometheus.Registerer
	// Peers are the sessions with routers; nil if there are none.
	Peers func() []agent.PeerStatus
}

// Observer reports as MetalLB's speakers do.
type Observer struct {
	o       Options
	metrics *metrics
	l2      *l2Statuses
	bgp     *bgpStatuses
	state   *configState
	// Which of the kinds are there.
	l2There, bgpThere, stateThere atomic.Bool
	configured                    bool // objects of MetalLB's kinds were read
}

var _ agent.Observer = &Observer{}

// New returns an observer, which writes nothing until Run.
func New(o Options) (*Observer, error) {
	scheme, err := sources.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(o.REST, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	owner := ownership{node: o.Node, client: c, pod: o.Pod}
	if o.Peers != nil {
		o.Registry.MustRegister(peerCollector(o.Peers))
	}
	return &Observer{o: o, metrics: newMetrics(o.Registry),
		l2:    &l2Statuses{node: o.Node, namespace: o.Namespace, client: c, owner: owner, arrived: make(chan struct{}, 1)},
		bgp:   &bgpStatuses{node: o.Node, namespace: o.Namespace, client: c, owner: owner, arrived: make(chan struct{}, 1)},
		state: newConfigState(o.Node, o.Namespace, c, owner),
	}, nil
}

// Run writes objects until ctx ends, unless the node's name does not fit where
// MetalLB has it.
func (m *Observer) Run(ctx context.Context) {
	if !m.o.Objects {
		return
	}
	if errs := validation.IsValidLabelValue(m.o.Node); len(errs) > 0 {
		m.o.Log.Warn("node name too long for a label; not writing ServiceL2Status, ServiceBGPStatus and ConfigurationState objects", "node", m.o.Node)
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	own := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{apimetallb.LabelNode: m.o.Node})}
	running.Go(func() {
		m.write(ctx, &apimetallb.ServiceL2Status{}, "ServiceL2Status", own, &m.l2There, m.l2.arrived, m.l2.pass)
	})
	running.Go(func() {
		status := &unstructured.Unstructured{}
		status.SetGroupVersionKind(apimetallb.GroupVersion.WithKind(kindBGPStatus))
		m.write(ctx, status, kindBGPStatus, own, &m.bgpThere, m.bgp.arrived, m.bgp.pass)
	})
	self := cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", m.state.writer.Key.Name)}
	running.Go(func() {
		m.write(ctx, &apimetallb.ConfigurationState{}, "ConfigurationState", self, &m.stateThere, m.state.arrived, m.state.pass)
	})
}

// write waits for a kind, and then writes objects of it whenever something arrives,
// or somebody changes those of this node.
func (m *Observer) write(ctx context.Context, kind client.Object, name string, own cache.Options, there *atomic.Bool,
	arrived chan struct{}, pass func(context.Context) (bool, error)) {
	var running sync.WaitGroup
	defer running.Wait()
	kinds, err := apikinds.New(m.o.REST, m.o.Log, sources.MetalLBKinds(name)...)
	if err != nil {
		m.o.Log.Error("no "+name+" objects are written", "error", err)
		return
	}
	if kinds.WhenServed(ctx, name+" cannot be written yet; trying again", func() error {
		c, err := sources.NamespaceCache(m.o.REST, m.o.Namespace, m.o.Log, own)
		if err != nil {
			return err
		}
		if err := sources.OnChange(ctx, c, kind, func() { write.Wake(arrived) }); err != nil {
			return err
		}
		running.Go(func() { _ = c.Start(ctx) })
		return nil
	}) != nil {
		return
	}
	there.Store(true)
	write.Paced(ctx, m.o.Log, name, arrived, pass)
}

// Observes says whether a pool is of MetalLB's kind.
func (m *Observer) Observes(pool lb.PoolKey) bool { return pool.Dialect == metallb.Name }

// Event returns reason and source of an event as MetalLB's speakers write it.
func (m *Observer) Event(reason lb.Reason) (code, component string) {
	return cmp.Or(metallb.EventName(reason.Code), string(reason.Code)), "metallb-speaker"
}

// Read counts what was read.
func (m *Observer) Read(objects int) { m.metrics.updates.Add(float64(objects)) }

// Configured reports whether everything of MetalLB's kinds can be used.
func (m *Observer) Configured(all []sources.Configuration) {
	var problems []sources.Problem
	for _, c := range all {
		if c.Dialect == metallb.Name {
			m.configured, problems = true, c.Problems
		}
	}
	bad := 0
	for _, p := range problems {
		if !p.Reason.Ready() {
			bad++
		}
	}
	m.metrics.configured(bad)
	if m.configured {
		m.state.set(summaryOf(problems))
	}
}

// Announced notes what this node announces.
func (m *Observer) Announced(service types.NamespacedName, addr netip.Addr, protocol string, yes bool) {
	m.metrics.announces(service, protocol, m.o.Node, addr, yes)
}

// Sent counts a frame that announces an address, from any goroutine.
func (m *Observer) Sent(addr netip.Addr) { m.metrics.gratuitous.WithLabelValues(addr.String()).Inc() }

// Forget removes what is counted by address.
func (m *Observer) Forget(addr netip.Addr) { m.metrics.gratuitous.DeleteLabelValues(addr.String()) }

// Presence has the objects say how Services are announced from here.
func (m *Observer) Presence(all map[types.NamespacedName]agent.Presence) {
	if m.configured {
		m.l2.set(all)
	}
}

// Routes has the objects say to which peers Services are announced from here.
func (m *Observer) Routes(all map[types.NamespacedName][]string) {
	if m.configured {
		m.bgp.set(all)
	}
}

// Finish removes the node's objects.
func (m *Observer) Finish(ctx context.Context) error {
	var errs []error
	if m.l2There.Load() {
		errs = append(errs, m.l2.finish(ctx))
	}
	if m.bgpThere.Load() {
		errs = append(errs, m.bgp.finish(ctx))
	}
	if m.stateThere.Load() {
		errs = append(errs, m.state.finish(ctx))
	}
	return errors.Join(errs...)
}

// ownership says what the objects go with.
type ownership struct {
	node   string
	client client.Client
	pod    *metav1.OwnerReference
}

// reference is to the agent's pod, as MetalLB has it, or to the node's Agent
// object, and so to the Node, where the pod cannot be an owner.
func (o ownership) reference(ctx context.Context) (metav1.OwnerReference, error) {
	if o.pod != nil {
		return *o.pod, nil
	}
	var agent v1alpha1.Agent
	err := o.client.Get(ctx, types.NamespacedName{Name: o.node}, &agent)
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent", Name: o.node, UID: agent.UID}, err
}
