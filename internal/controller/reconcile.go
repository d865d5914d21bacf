package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// conflictRetry is when a Service is looked at again after somebody else wrote
// it at the same moment; usually the watch is faster.
const conflictRetry = 100 * time.Millisecond

// common is what the reconcilers of all backends share.
type common struct {
	cache    client.Reader
	client   kubernetes.Interface
	classes  *classes
	readings *readings
	agents   *agents // nil if nobody needs what agents report
	ledger   *ledger
	events   *events
	log      *slog.Logger
	// knownElsewhere says whether another backend than that one has served a Service since
	// the start: what is on the Service is its to remove.
	knownElsewhere func(types.NamespacedName, config.Backend) bool
	// suspended: nothing is looked at until everything was read again, then all is.
	suspended atomic.Bool
	// waited observes how long a Service waited for its first address.
	waited prometheus.Histogram
}

// services makes each Service of one backend say what was decided for it. There is
// one for each backend, with a queue of its own: a slow one delays nobody else.
type services struct {
	*common
	name      config.Backend
	backend   *Backend
	inventory *inventory // nil if the backend has none
	memos     memos
	orphans   orphans
	pass      pass
	// running counts reconciles under way.
	running atomic.Int32
}

// Reconcile is the journey of one Service: read it, settle what it has where it is
// from pools, let the backend make it real, and write down what came of it.
func (c *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c.running.Add(1)
	defer c.running.Add(-1)
	defer c.pass.looked(req.NamespacedName)
	if c.suspended.Load() {
		return reconcile.Result{}, nil
	}
	var object corev1.Service
	if err := c.cache.Get(ctx, req.NamespacedName, &object); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("read service %s: %w", req.NamespacedName, err)
		}
		return reconcile.Result{}, c.vanish(ctx, req.NamespacedName)
	}
	s := kubeapi.Service(&object)
	class := c.classes.of(s)
	switch whose := c.classes.whose(s); {
	case whose != "" && whose != c.name: // another's, also to be let go
		return c.hand(ctx, s.Key)
	case class == nil:
		return c.leave(ctx, s)
	case c.inventory.pending():
		return reconcile.Result{}, nil // its arrival wakes all
	}
	labels, known := c.namespaceLabels(ctx, s.Key.Namespace)
	if !known && !s.Deleting && c.classes.settles(class) {
		return reconcile.Result{}, nil // its arrival reconciles its Services
	}
	held := c.backend.held(s)
	m := c.memos.of(s, held.Says, time.Now())
	if m.stale(s) {
		return reconcile.Result{}, nil
	}
	w := lb.Want{Service: *s, Gone: s.Deleting}
	if c.classes.settles(class) {
		if c.settle(&w, m, held, class, labels); w.Request.AsIs && !w.Gone {
			return reconcile.Result{}, nil
		}
	} else {
		w.Request = c.readings.current().Request(s, nil, c.classes.reading(class))
		w.Request.Voice = c.backend.words()
	}
	return c.sync(ctx, w, m, held)
}

// settle asks the ledger what the Service has. One that is being deleted holds it
// until it is gone.
func (c *services) settle(w *lb.Want, m *memo, held lb.Held, class *config.Class, labels map[string]string) {
	s, in := &w.Service, c.classes.reading(class)
	if w.Gone {
		w.Request = c.unchanged(s, in, held)
		w.Verdict = c.ledger.settle(w.Request, held.Addresses)
		return
	}
	published := held.Addresses
	if published == nil {
		published = []netip.Addr{} // it is known that there is none
	}
	if m.settled && !held.Current {
		published = nil // an edit by hand; what we know is better
	}
	m.settled = true
	w.Request = c.request(s, in, held, labels)
	w.Request.Reallocate = w.Request.Reallocate || len(m.yielded) > 0
	w.Verdict = c.ledger.settle(w.Request, published)
	if !slices.Equal(m.yielded, w.Verdict.Addresses) {
		m.yielded = nil
	}
	m.lacks.Store(len(w.Verdict.Addresses) == 0)
	c.remark(s, &w.Request, &w.Verdict)
	c.recallPool(s, m, &w.Verdict)
	if len(w.Verdict.Addresses) > 0 {
		w.Carrier = c.agents.host(w.Verdict.Addresses[0])
	}
	if c.backend.needs().Agents {
		w.Unannounced = c.agents.unannounced(w.Verdict.Addresses, s.Unannounced)
	}
}

// vanish gives back what a Service had that no longer exists, once nothing is left of it
// outside. What other backends' Services had is not ours to remove.
func (c *services) vanish(ctx context.Context, key types.NamespacedName) error {
	if c.memos.knows(key) {
		if err := c.backend.vanished(ctx, key); err != nil {
			return fmt.Errorf("backend %s, deleted service %s: %w", c.name, key, err)
		}
	}
	c.giveBack(key)
	c.forget(key)
	return nil
}

// handRetry is when a Service of another backend is looked at again while this one cannot
// say whether it has anything of it.
const handRetry = 30 * time.Second

// hand leaves a Service that is not the backend's to others. What was made for it outside
// goes, where the Service itself does not say that there is something.
func (c *services) hand(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	if err := c.backend.vanished(ctx, key); err != nil {
		return c.unable(key, false, err)
	}
	c.forget(key)
	return reconcile.Result{}, nil
}

// unable is when a Service is looked at again whose traces outside cannot be removed now;
// holds says that it has something from pools. All Services that the backend does not
// serve come here. While it cannot be reached, those that it never had are no failure.
func (c *services) unable(key types.NamespacedName, holds bool, err error) (reconcile.Result, error) {
	if holds || c.memos.knows(key) {
		return reconcile.Result{}, fmt.Errorf("backend %s, service %s, which it does not serve: %w", c.name, key, err)
	}
	return reconcile.Result{RequeueAfter: handRetry}, nil
}

// leave gives back what a Service holds that no class serves, and takes our words off
// it. A Service that never was ours is not touched; one whose class is not served any
// more keeps its addresses.
func (c *services) leave(ctx context.Context, s *lb.Service) (reconcile.Result, error) {
	in, held := c.classes.readingOf(c.name), c.backend.held(s)
	w := lb.Want{Service: *s, Gone: true}
	w.Request = c.unchanged(s, in, held)
	if !c.classes.fromPools(c.name) {
		w.Request.Voice = c.backend.words()
	}
	if by := c.classes.leftBy(s); by != "" {
		c.forget(s.Key)
		if by == c.name && c.classes.fromPools(c.name) {
			v := c.ledger.settle(w.Request, held.Addresses)
			if err := c.note(ctx, s, held, v.Addresses); err != nil {
				return reconcile.Result{}, err
			}
		}
		if !s.Deleting || !held.Left {
			return reconcile.Result{}, nil
		}
		return c.sync(ctx, w, &memo{}, held)
	}
	m := c.memos.find(s)
	if m != nil && m.stale(s) {
		return reconcile.Result{}, nil
	}
	had, known, err := c.release(ctx, &w)
	if err != nil {
		return c.unable(s.Key, known, err)
	}
	w.Known = known || m != nil
	if len(had.Addresses) > 0 && !s.Deleting {
		c.events.add(reference(s), c.voice(&lb.Request{}, &had).Event(lb.AddressReleased.With(prose.Addrs(had.Addresses), c.noLongerOurs(s)), nil, nil), true)
	}
	ignored := s.Says != nil && c.classes.ignored(s) != ""
	if s.LoadBalancer && !w.Known && !ignored || !c.backend.marked(s) || !w.Known && c.knownElsewhere(s.Key, c.name) {
		return c.hand(ctx, s.Key)
	}
	if m == nil {
		m = c.memos.of(s, held.Says, time.Now())
	}
	return c.sync(ctx, w, m, held)
}

// release gives back what a Service has from pools, once nothing is left of it outside:
// until then somebody else would get an address that is still in use. In a dry run it
// keeps everything. had is what it gave back, and known says that it had something.
func (c *services) release(ctx context.Context, w *lb.Want) (had lb.Verdict, known bool, err error) {
	if !c.classes.fromPools(c.name) {
		return lb.Verdict{}, false, nil
	}
	key := w.Service.Key
	if known = c.ledger.knows(key); w.Request.DryRun {
		return lb.Verdict{}, known, nil
	}
	if err := c.backend.vanished(ctx, key); err != nil {
		return lb.Verdict{}, known, err
	}
	had, known = c.giveBack(key)
	return had, known, nil
}

// sync lets the backend do its part and concludes.
func (c *services) sync(ctx context.Context, w lb.Want, m *memo, held lb.Held) (reconcile.Result, error) {
	w.DryRun = c.backend.DryRun || w.Request.DryRun
	if err := c.complete(ctx, &w); err != nil {
		return reconcile.Result{}, err
	}
	out, err := c.backend.Sync(ctx, w)
	if out.Keep && !w.DryRun {
		// Before anything is made outside: a Service that is deleted must wait for
		// what was made for it.
		written, wrong := c.write(ctx, &w.Service, kubeapi.Patch(&w.Service, &out, time.Now()))
		if wrong != nil || written == nil {
			return reconcile.Result{RequeueAfter: conflictRetry}, wrong
		}
		m.written, w.Service = written.Version, *written
		out, err = c.backend.Sync(ctx, w)
	}
	if out.Yields && !w.DryRun {
		m.yielded = w.Verdict.Addresses
		c.inventory.again()
	}
	again, wrong := c.conclude(ctx, &w, m, held, &out)
	switch {
	case wrong != nil:
		return reconcile.Result{}, wrong
	case again > 0:
		return reconcile.Result{RequeueAfter: again}, nil
	case err != nil && out.Again == 0:
		return reconcile.Result{}, fmt.Errorf("backend %s, service %s: %w", c.name, w.Service.Key, err)
	}
	return reconcile.Result{RequeueAfter: out.Again}, nil
}

// giveBack takes out of the ledger what a Service had. Where no class has pools, all
// that is there is another backend's, and may not even be known yet.
func (c *services) giveBack(key types.NamespacedName) (had lb.Verdict, known bool) {
	if !c.classes.fromPools(c.name) {
		return lb.Verdict{}, false
	}
	return c.ledger.forget(key)
}

func (c *services) forget(key types.NamespacedName) {
	if uid, known := c.memos.forget(key); known {
		c.backend.Forget(uid)
	}
}

// namespaceLabels of a namespace; not known if the cache does not have it yet:
// watches of different kinds are not in step, and without labels a Service would
// get an address from a pool that is not for it.
func (c *common) namespaceLabels(ctx context.Context, name string) (labels map[string]string, known bool) {
	if !c.classes.anyFromPools() {
		return nil, false
	}
	var ns corev1.Namespace
	if err := c.cache.Get(ctx, types.NamespacedName{Name: name}, &ns); err != nil {
		return nil, false
	}
	return ns.Labels, true
}

// noLongerOurs says why s, which was ours, is not.
func (c *common) noLongerOurs(s *lb.Service) string {
	if !s.LoadBalancer {
		return "it is no longer of type LoadBalancer"
	}
	if why := c.classes.ignored(s); why != "" {
		return why
	}
	return "its class is not served"
}
