package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

const (
	importPage  = 1000
	importRetry = time.Second
)

// importer is a source of the controllers of Services with addresses from pools. It
// never delivers anything by itself; they wait for it, and so start no worker before
// everything that is held is known. It runs again in every new leader.
type importer struct {
	*common
	cache cache.Cache
	// secrets of the controller's namespace; services reconcile those of each backend.
	secrets  typedcorev1.SecretInterface
	services []*services
	// first has the backends whose Services have no proofs yet.
	first map[config.Backend]bool

	mu   sync.Mutex
	done bool
}

// Start has nothing to deliver.
func (i *importer) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// WaitForSync imports, and tries again until it succeeds or ctx ends. Of several that
// wait, the first one imports for all.
func (i *importer) WaitForSync(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done {
		return nil
	}
	if !i.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("caches not filled: %w", ctx.Err())
	}
	began := time.Now()
	var found []imported
	for _, step := range []func() error{
		func() error { return i.openWitnesses(ctx) },
		func() (err error) { found, err = i.importAll(ctx); return err },
		func() error { return i.closeWitnesses(ctx, found) },
	} {
		if err := i.untilDone(ctx, step); err != nil {
			return err
		}
	}
	i.log.Info("imported", "services", len(found), "took", time.Since(began).Round(time.Millisecond).String())
	close(i.ledger.imported)
	i.done = true
	return nil
}

// untilDone tries a step of the import until it succeeds or ctx ends.
func (i *importer) untilDone(ctx context.Context, step func() error) error {
	for {
		err := step()
		if err == nil {
			return nil
		}
		i.log.Warn("import failed; allocating nothing until it succeeds", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(importRetry):
		}
	}
}

// importAll reads pools and nodes from the cache, but Services with a LIST that
// the API server answers from a quorum: the cache may be behind what the
// previous leader wrote last, and an address it gave must not be given again.
// Services without an address come last, the oldest first.
func (i *importer) importAll(ctx context.Context) ([]imported, error) {
	all, err := i.loadBalancers(ctx)
	if err != nil {
		return nil, err
	}
	return i.importThese(ctx, all)
}

// importThese imports all Services of type LoadBalancer.
func (i *importer) importThese(ctx context.Context, all []lb.Service) ([]imported, error) {
	namespaces, err := i.allNamespaceLabels(ctx)
	if err != nil {
		return nil, err
	}
	list := i.listServices(ctx, all)
	i.ledger.do(func(a *ipam.Allocator) []types.NamespacedName {
		// With the ledger locked: read before, they could overwrite what the
		// reconciles of pools and nodes have told it meanwhile. What an allocator
		// knew before is forgotten, if all goes well.
		a = a.Anew()
		var pools []lb.Pool
		var owned ipam.Owners
		if pools, err = i.readings.read(ctx); err != nil {
			return nil
		}
		if owned, err = (&owners{cache: i.common.cache, kinds: i.readings.kinds}).read(ctx); err != nil {
			return nil
		}
		if _, err = i.agents.read(ctx); err != nil {
			return nil
		}
		a.SetPools(pools)
		var heirs []lb.Request
		for _, s := range list {
			r := i.requestOf(s, namespaces)
			a.Import(r, s.held.Addresses)
			if r.Inherits {
				heirs = append(heirs, r)
			}
		}
		a.SetOwners(owned) // by now it is known which addresses on interfaces Services have
		// What was given comes before what is only asked for.
		slices.SortStableFunc(heirs, func(a, b lb.Request) int { return a.Created.Compare(b.Created) })
		for _, r := range heirs {
			a.Settle(r, nil)
		}
		a.SettleAll()
		i.ledger.alloc = a
		return nil // every Service is in the controllers' queues anyway
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// imported is a Service as far as importing needs it.
type imported struct {
	service *lb.Service
	class   *config.Class // nil if it is left
	backend config.Backend
	held    lb.Held
}

func (i *importer) requestOf(s imported, namespaces map[string]map[string]string) lb.Request {
	labels, known := namespaces[s.service.Key.Namespace]
	switch {
	case s.class == nil:
		return i.unchanged(s.service, i.classes.readingOf(s.backend), s.held)
	case !known || s.service.Deleting:
		return i.unchanged(s.service, i.classes.reading(s.class), s.held)
	}
	return i.request(s.service, i.classes.reading(s.class), s.held, labels)
}

// listServices are those of all that have addresses from pools.
func (i *importer) listServices(ctx context.Context, all []lb.Service) (out []imported) {
	known := i.heldByBackends(ctx, all)
	for n := range all {
		s := &all[n]
		class, name := i.classes.of(s), i.classes.leftBy(s)
		if class != nil {
			name = class.Backend
		}
		if name == "" || class != nil && !i.classes.settles(class) || class == nil && !i.classes.fromPools(name) {
			continue
		}
		held, ok := known[name][s.UID]
		if !ok {
			held = i.classes.backends[name].held(s)
		}
		out = append(out, imported{service: s, class: class, backend: name, held: held})
	}
	return out
}

// loadBalancers are all Services of that type.
func (i *importer) loadBalancers(ctx context.Context) (out []lb.Service, err error) {
	opts := metav1.ListOptions{Limit: importPage, FieldSelector: "spec.type=" + string(corev1.ServiceTypeLoadBalancer)}
	for {
		page, err := i.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list services: %w", err)
		}
		for n := range page.Items {
			page.Items[n].ManagedFields = nil
			out = append(out, *kubeapi.Service(&page.Items[n]))
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// heldByBackends is what backends know that Services have. One that cannot be asked
// stops nobody: what Services say counts then.
func (i *importer) heldByBackends(ctx context.Context, all []lb.Service) map[config.Backend]map[types.UID]lb.Held {
	out := map[config.Backend]map[types.UID]lb.Held{}
	for name, b := range i.classes.backends {
		importer, ok := b.Backend.(backend.Importer)
		if !ok {
			continue
		}
		held, err := importer.Import(ctx, all)
		if err != nil {
			i.log.Warn("cannot list what a backend holds; using the Services' status instead", "backend", name, "error", err)
			continue
		}
		out[name] = held
	}
	return out
}

func (i *importer) allNamespaceLabels(ctx context.Context) (map[string]map[string]string, error) {
	var list corev1.NamespaceList
	if err := i.common.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list.Items))
	for _, ns := range list.Items {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}
