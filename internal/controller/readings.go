package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// readable says which kinds can be read: apikinds.Set.
type readable interface {
	// Has says whether a kind can be read.
	Has(kind schema.GroupVersionKind) bool
	// Lacks says of a kind that need not be there that it cannot be read, and why: that
	// it is not there, if nothing else is said.
	Lacks(kind schema.GroupVersionKind) (why string, lacks bool)
	// Follow has a kind followed, also if it comes later.
	Follow(kind schema.GroupVersionKind, f apikinds.Follower) error
}

// lacks is kinds.Lacks; without kinds, all can be read.
func lacks(kinds readable, kind schema.GroupVersionKind) (why string, lacking bool) {
	if kinds == nil {
		return "", false
	}
	return kinds.Lacks(kind)
}

// readings are what the objects of all dialects say now.
type readings struct {
	cache       client.Reader
	kinds       readable // nil: all can be read
	dialects    []compat.Dialect
	uses        func(lb.Dialect) bool
	inventories []*inventory
	// amend, if set, changes the pools that were read.
	amend func([]lb.Pool) []lb.Pool

	now atomic.Pointer[compat.Readings]

	mu     sync.Mutex
	pools  map[lb.PoolKey]bool              // that there are
	labels map[lb.PoolKey]map[string]string // of pools that there are or were
	told   map[lb.Object]map[lb.Reason]bool // warnings about each object
	// tell gets new warnings.
	tell func(compat.Dialect, lb.Warning)
}

func newReadings(c *classes, kinds readable, tell func(compat.Dialect, lb.Warning)) *readings {
	r := &readings{kinds: kinds, dialects: c.dialects, uses: c.uses, tell: tell, told: map[lb.Object]map[lb.Reason]bool{}}
	var none compat.Readings
	for _, d := range c.dialects {
		none = append(none, compat.Named{Dialect: d, Reading: d.Read(compat.Objects{})})
	}
	r.now.Store(&none)
	return r
}

// current is what they said when they were read last.
func (r *readings) current() compat.Readings { return *r.now.Load() }

// read reads them again, and returns all pools, those of inventories too. The ledger
// is locked meanwhile, and gets the pools, so that nobody sees one without the other.
func (r *readings) read(ctx context.Context) ([]lb.Pool, error) {
	var now compat.Readings
	for _, d := range r.dialects {
		objects, err := r.objects(ctx, d)
		if err != nil {
			return nil, err
		}
		now = append(now, compat.Named{Dialect: d, Reading: d.Read(objects)})
	}
	r.now.Store(&now)
	pools := r.allPools()
	for _, i := range r.inventories {
		pools = append(pools, i.take()...)
	}
	r.warn(now)
	r.remember(pools)
	return pools, nil
}

// allPools are those of all formats, as they were read last.
func (r *readings) allPools() []lb.Pool {
	pools := r.current().Pools()
	if r.amend != nil {
		pools = r.amend(pools)
	}
	return pools
}

// remember notes the labels of pools, also of those that are gone since.
func (r *readings) remember(pools []lb.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools = map[lb.PoolKey]bool{}
	for i := range pools {
		p := &pools[i]
		if r.pools[p.Key] = true; r.labels == nil {
			r.labels = map[lb.PoolKey]map[string]string{}
		}
		r.labels[p.Key] = p.Labels
	}
}

// formerPool returns what is remembered of a pool that is gone; nil if it is there, had
// no labels or was never seen.
func (r *readings) formerPool(key lb.PoolKey) *lb.FormerPool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools[key] || len(r.labels[key]) == 0 {
		return nil
	}
	return &lb.FormerPool{Key: key, Labels: r.labels[key]}
}

func (r *readings) hasPool(key lb.PoolKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pools[key]
}

func (r *readings) objects(ctx context.Context, d compat.Dialect) (compat.Objects, error) {
	out := compat.Objects{All: map[schema.GroupVersionKind][]compat.Object{}, Unread: map[schema.GroupVersionKind]string{}}
	if !r.uses(d.Name()) {
		return out, nil // its kinds are not watched
	}
	for _, k := range d.Kinds() {
		if why, lacking := lacks(r.kinds, k.GroupVersionKind); lacking {
			out.Unread[k.GroupVersionKind] = why
			continue
		}
		if k.List == nil {
			continue
		}
		list, ok := k.List().(client.ObjectList)
		if !ok {
			continue // never: lists of objects are
		}
		if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return out, fmt.Errorf("list %s: %w", k.Kind, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if object, ok := o.(compat.Object); ok {
				out.All[k.GroupVersionKind] = append(out.All[k.GroupVersionKind], object)
			}
			return nil
		})
		if err != nil {
			return out, fmt.Errorf("list %s: %w", k.Kind, err)
		}
	}
	return out, nil
}

// warn reports problems of objects, each once while it lasts.
func (r *readings) warn(now compat.Readings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := map[lb.Object]map[lb.Reason]bool{}
	for _, d := range now {
		for _, w := range d.Warnings() {
			if told[w.About] == nil {
				told[w.About] = map[lb.Reason]bool{}
			}
			known := told[w.About][w.Reason] || r.told[w.About][w.Reason]
			if told[w.About][w.Reason] = true; !known && w.About.UID != "" {
				r.tell(d.Dialect, w)
			}
		}
	}
	r.told = told
}

// pools tells the ledger about all pools whenever one of them changes.
type pools struct {
	*common
	// changed is called when dialects say something else about Services than before.
	changed func(dialects []lb.Dialect)
}

func (c *pools) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var err error
	c.ledger.do(func(a *ipam.Allocator) []types.NamespacedName {
		var all []lb.Pool
		before := c.readings.current()
		if all, err = c.readings.read(ctx); err != nil {
			return nil
		}
		var differs []lb.Dialect
		for i, now := range c.readings.current() {
			if !now.Same(before[i].Reading) {
				differs = append(differs, now.Dialect.Name())
			}
		}
		if len(differs) == 0 {
			return a.SetPools(all)
		}
		c.changed(differs)
		return append(c.readAnew(ctx, a, all, differs), a.SetPools(all)...)
	})
	return reconcile.Result{}, err
}

// readAnew reads Services again of which dialects say something else now. That is
// between the pools that they had and those that they have: else a Service that waits
// would have an address of the new ones by what it asked for before, or one of the old
// ones by what it asks for now.
func (c *pools) readAnew(ctx context.Context, a *ipam.Allocator, all []lb.Pool, dialects []lb.Dialect) (changed []types.NamespacedName) {
	if !c.ledger.isImported() {
		return nil
	}
	var services corev1.ServiceList
	if c.cache.List(ctx, &services, client.UnsafeDisableDeepCopy) != nil {
		return nil // never, the cache is filled; they are all in the queue anyway
	}
	changed = a.SetPools(slices.DeleteFunc(slices.Clone(all), func(p lb.Pool) bool { return slices.Contains(dialects, p.Key.Dialect) }))
	for i := range services.Items {
		s := kubeapi.Service(&services.Items[i])
		class := c.classes.of(s)
		if _, known := a.Verdict(s.Key); class == nil || !known || s.Deleting {
			continue
		}
		in := c.classes.reading(class)
		if !slices.ContainsFunc(dialects, func(d lb.Dialect) bool { return d == in.Words || slices.Contains(in.Dialects, d) }) {
			continue
		}
		labels, _ := c.namespaceLabels(ctx, s.Key.Namespace)
		r := c.request(s, in, c.classes.backends[class.Backend].held(s), labels)
		_, others := a.Settle(r, nil)
		changed = append(changed, others...)
	}
	return changed
}
