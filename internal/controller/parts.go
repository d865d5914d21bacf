package controller

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/serve"
)

// parts are what the controller is made of.
type parts struct {
	ctx    context.Context
	o      Options
	mgr    manager.Manager
	writer kubernetes.Interface

	*common
	kinds    *apikinds.Set
	owners   *owners
	wakers   *wakers
	services []*services
	imports  *importer
	pools    *pools
	poolWake *poolWaker
	status   *poolStatus
	registry *prometheus.Registry
	counters []Counter
}

// newParts makes all parts and ties them together; nothing runs yet.
func newParts(ctx context.Context, o Options, c *classes, kinds *apikinds.Set, mgr manager.Manager, writer kubernetes.Interface) *parts {
	p := &parts{ctx: ctx, o: o, mgr: mgr, writer: writer, kinds: kinds, poolWake: &poolWaker{}, registry: prometheus.NewRegistry()}
	p.wakers = &wakers{ctx: ctx, all: map[config.Backend]*waker{}, cache: mgr.GetCache(), classes: c}
	l := newLedger(p.wakers.wake)
	p.owners = &owners{cache: mgr.GetCache(), kinds: kinds, ledger: l}
	l.alloc.SetWords(c.words())
	p.common = &common{cache: mgr.GetCache(), client: writer, classes: c, ledger: l, log: o.Log, waited: prometheus.NewHistogram(timeToAddressOpts)}
	p.events = newEvents(writer, o.Log, p.busy)
	p.readings = newReadings(c, kinds, func(d compat.Dialect, w lb.Warning) {
		p.events.addOnce(objectReference(w.About), d.Voice().Event(w.Reason, nil, nil), w.Reason.Warning())
	})
	p.readings.cache = mgr.GetCache()
	if p.agents = newAgents(c, kinds, p.wakers.wake); p.agents != nil {
		p.agents.cache, p.agents.reasons, p.agents.log = mgr.GetCache(), o.Reasons, o.Log
		p.agents.client, p.agents.kube = mgr.GetClient(), writer
		p.agents.everyone, p.agents.addresses, p.agents.routed = p.announced, l.used, l.touch
	}
	p.knownElsewhere = func(key types.NamespacedName, but config.Backend) bool {
		return slices.ContainsFunc(p.services, func(svc *services) bool { return svc.name != but && svc.memos.knows(key) })
	}
	l.contested = func(contest ipam.Contest, from lb.Dialect) { p.tellContest(ctx, contest, from) }
	p.addServices()
	p.imports = &importer{common: p.common, cache: mgr.GetCache(), secrets: writer.CoreV1().Secrets(o.Namespace), services: p.services}
	p.pools = &pools{common: p.common, changed: func(d []lb.Dialect) { p.wakers.wake(p.using(d)) }}
	p.addReporters()
	return p
}

// leads says whether this replica leads and knows what Services have.
func (p *parts) leads() bool {
	select {
	case <-p.mgr.Elected():
		return !p.classes.anyFromPools() || p.ledger.isImported()
	default:
		return false
	}
}

// announced are all Services whose addresses agents announce.
func (p *parts) announced(ctx context.Context) (out []types.NamespacedName) {
	for _, svc := range p.services {
		if svc.backend.needs().Agents {
			out = append(out, svc.all(ctx)...)
		}
	}
	return out
}

// busy says whether addresses are being assigned. Backends without pools do not count:
// they mostly wait for somebody outside.
func (p *parts) busy() bool {
	return slices.ContainsFunc(p.services, func(svc *services) bool {
		return p.classes.fromPools(svc.name) && (svc.running.Load() > 0 || p.wakers.all[svc.name].waiting() > 0)
	})
}

// addServices makes a reconciler, with a queue, for each backend.
func (p *parts) addServices() {
	for _, name := range p.o.Config.Backends() {
		b := p.classes.backends[name]
		if b == nil {
			continue
		}
		svc := &services{common: p.common, name: name, backend: b, inventory: newInventory(b, p.log)}
		if svc.inventory != nil {
			svc.inventory.changed = p.poolWake.wakeAll
			svc.inventory.known = func() { p.wakers.all[name].wake(svc.all(p.ctx)...) }
			svc.inventory.services, svc.inventory.waiting = svc.served, svc.memos.waiting
			p.readings.inventories = append(p.readings.inventories, svc.inventory)
		}
		p.services = append(p.services, svc)
		if needs := b.needs(); needs.Agents && needs.Nodes && p.agents != nil {
			before := p.agents.placing
			p.agents.placing = func() {
				if before != nil {
					before()
				}
				p.wakers.all[name].wake(svc.all(p.ctx)...)
			}
		}
		p.wakers.all[name] = &waker{}
	}
	p.registry.MustRegister(collector{p.ctx, p.ledger, p.services, p.agents, p.leads, p.o.Reasons}, p.waited, serve.BuildInfo(p.o.Version))
}

// addReporters makes what looks after the statuses of pools.
func (p *parts) addReporters() {
	p.status = &poolStatus{cache: p.cache, client: p.mgr.GetClient(), ledger: p.ledger, told: &Told{events: p.events}, voice: p.classes.voice, log: p.log}
	tools := Tools{
		Cache: p.cache, Client: p.mgr.GetClient(), Told: p.status.told, Log: p.log, Has: p.kinds.Has, Usage: p.ledger.usage,
		Reading: func(d lb.Dialect) compat.Reading { return p.readings.current().Of(d) },
		Routing: p.agents.reportedRouting,
		Loaded:  func() bool { return synced(p.ctx, p.mgr.GetCache(), p.classes, p.kinds) },
	}
	for _, make := range p.o.Reporters {
		r := make(tools)
		if r == nil {
			continue
		}
		p.status.reporters = append(p.status.reporters, r)
		if c, ok := r.(prometheus.Collector); ok {
			p.registry.MustRegister(c)
		}
		if c, ok := r.(Counter); ok {
			p.counters = append(p.counters, c)
		}
	}
}

// informers of all kinds that are read.
func (p *parts) informers(ctx context.Context) ([]cache.Informer, error) {
	out := p.kinds.Informers()
	for _, kind := range watched(p.classes) {
		i, err := p.mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// counted returns r, and counts its reconciles.
func (p *parts) counted(r reconcile.Reconciler) reconcile.Reconciler {
	if len(p.counters) == 0 {
		return r
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		again, err := r.Reconcile(ctx, req)
		for _, c := range p.counters {
			c.Count(err)
		}
		return again, err
	})
}

// using returns all Services whose class may use pools of one of the dialects, or
// speaks it.
func (p *parts) using(dialects []lb.Dialect) (out []types.NamespacedName) {
	var list corev1.ServiceList
	if err := p.cache.List(p.ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not filled yet; then every Service is still to come
	}
	for i := range list.Items {
		s := kubeapi.Service(&list.Items[i])
		class := p.classes.of(s)
		if class == nil {
			continue
		}
		in := p.classes.reading(class)
		if slices.ContainsFunc(dialects, func(d lb.Dialect) bool { return d == in.Words || slices.Contains(in.Dialects, d) }) {
			out = append(out, s.Key)
		}
	}
	return out
}

// steps start the parts, in this order.
func (p *parts) steps() []func() error {
	steps := []func() error{
		func() error { return followServices(p.ctx, p.mgr.GetCache(), p.ledger) },
		func() error { return fillCaches(p.ctx, p.mgr.GetCache(), p.classes, p.kinds, p.log) },
		func() error { return p.mgr.Add(manager.RunnableFunc(p.events.Start)) },
		func() error { return serveHealth(p.mgr, p.o, p.classes, p.kinds) },
		func() error { return serveMetrics(p.mgr, p.o, p.registry) },
	}
	for _, svc := range p.services {
		steps = append(steps, func() error { return watchServices(p.mgr, svc, p.wakers.all[svc.name], p.imports, p.counted) })
		if svc.inventory != nil {
			steps = append(steps, func() error { return p.mgr.Add(manager.RunnableFunc(svc.inventory.Start)) })
		}
	}
	if p.classes.anyFromPools() {
		steps = append(steps,
			func() error { return p.mgr.Add(p.kinds) },
			func() error { return watchPools(p.mgr, p.pools, p.poolWake, p.counted) },
			func() error { return watchOwners(p.mgr, p.owners) },
			func() error { return watchAgents(p.mgr, p.agents, p.kinds) },
			func() error { return p.mgr.Add(manager.RunnableFunc(p.status.Start)) },
		)
	}
	steps = append(steps, func() error {
		return p.mgr.Add(manager.RunnableFunc((&rewinds{common: p.common, seen: p.o.rewound, services: p.services, imports: p.imports, informers: p.informers, wake: p.wakers.wake}).Start))
	})
	if p.o.GossipKey {
		steps = append(steps, func() error { return p.mgr.Add(manager.RunnableFunc(ensureGossipKey(p.writer, p.o))) })
	}
	return steps
}
