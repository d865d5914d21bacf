package agent

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/kinds"
	"fairlead.io/internal/lb"
)

// classicStatus writes what MetalLB's speakers write about themselves, if and as
// soon as the kinds for it are there.
type classicStatus struct {
	l2    *l2Statuses
	state *configState
	// Which of the kinds are there.
	l2There, stateThere atomic.Bool
}

// startClassicStatus starts writing, unless the node's name does not fit where
// MetalLB has it.
func (a *agent) startClassicStatus(o Options, c client.Client) error {
	owner := ownership{node: a.node, client: c, pod: o.Pod}
	a.status = &classicStatus{
		l2:    &l2Statuses{node: a.node, namespace: o.MetalLBNamespace, client: c, owner: owner, arrived: make(chan struct{}, 1)},
		state: &configState{node: a.node, namespace: o.MetalLBNamespace, client: c, owner: owner, arrived: make(chan struct{}, 1)},
	}
	if errs := validation.IsValidLabelValue(a.node); len(errs) > 0 {
		a.log.Warn("the node's name does not fit into a label: no ServiceL2Status and ConfigurationState objects are written", "node", a.node)
		return nil
	}
	d, err := discovery.NewDiscoveryClientForConfig(o.REST)
	if err != nil {
		return err
	}
	s := a.status
	own := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{apimetallb.LabelNode: a.node})}
	a.running.Go(func() {
		a.writeClassic(o, d, &apimetallb.ServiceL2Status{}, "ServiceL2Status", own, &s.l2There, s.l2.arrived, s.l2.pass)
	})
	self := cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", s.state.name())}
	a.running.Go(func() {
		a.writeClassic(o, d, &apimetallb.ConfigurationState{}, "ConfigurationState", self, &s.stateThere, s.state.arrived, s.state.pass)
	})
	return nil
}

// writeClassic waits for a kind, and then writes objects of it whenever something
// arrives, or somebody changes those of this node.
func (a *agent) writeClassic(o Options, d kinds.Discovery, kind client.Object, name string, own cache.Options, there *atomic.Bool,
	arrived chan struct{}, pass func(context.Context) (bool, error)) {
	ctx := a.background
	for kinds.Await(ctx, d, classicKinds(name)...) == nil {
		c, err := newClassicCache(o, own)
		if err == nil {
			err = wakeOn(ctx, c, kind, arrived)
		}
		if err == nil {
			a.running.Go(func() { _ = c.Start(ctx) })
			there.Store(true)
			paced(a.reporting, a.log, name, arrived, pass)
			return
		}
		a.log.Warn(name+" cannot be written yet; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// wakeOn has whoever waits on arrived look again when an object of the kind has
// changed.
func wakeOn(ctx context.Context, c cache.Cache, kind client.Object, arrived chan struct{}) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake(arrived) }, UpdateFunc: func(_, _ any) { wake(arrived) }, DeleteFunc: func(any) { wake(arrived) },
	})
	return err
}

// reportPresence hands the reporter how this node announces Services of MetalLB's
// pools.
func (a *agent) reportPresence() {
	if a.status == nil || a.classic == nil || !a.presenceDirty {
		return
	}
	a.presenceDirty = false
	want := map[types.NamespacedName]presence{}
	all := sets.New[types.NamespacedName]() // announced on all interfaces
	for addr, h := range a.held {
		candidate := a.directory.candidate(addr)
		for _, t := range h.tenants {
			if t.pool.Dialect != lb.MetalLB {
				continue
			}
			p := want[t.service]
			if candidate.InterfacesOn(a.labels) == nil {
				all.Insert(t.service)
			}
			p.interfaces = sets.List(sets.New(p.interfaces...).Insert(h.places...))
			p.others = a.alsoAnnouncing(t.service)
			want[t.service] = p
		}
	}
	for service := range all {
		want[service] = presence{others: want[service].others}
	}
	a.status.l2.set(want)
}

// alsoAnnouncing returns the other nodes that have an address of the Service.
func (a *agent) alsoAnnouncing(service types.NamespacedName) sets.Set[string] {
	out := sets.New[string]()
	if o := a.directory.services[service]; o != nil {
		for _, addr := range o.has {
			for _, c := range a.claims[addr] {
				if _, alive := a.members[c.Node]; alive && c.Up && c.Node != a.node {
					out.Insert(c.Node)
				}
			}
		}
	}
	return out
}

// tellConfiguration tells whether everything of MetalLB's kinds can be used.
func (a *agent) tellConfiguration(problems []metallb.Problem) {
	bad := 0
	for _, p := range problems {
		if !p.Reason.Ready() {
			bad++
		}
	}
	a.metrics.classic.configured(bad)
	if a.status != nil && a.classic != nil {
		a.status.state.set(summaryOf(problems))
	}
}
