package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

const (
	importPage  = 1000
	importRetry = time.Second
)

// importer is a source of the Service controller. It never delivers anything by
// itself; the controller waits for it, and so starts no worker before everything
// that is held is known. It runs anew in every new leader.
type importer struct {
	poolSources
	cache  cache.Cache
	client kubernetes.Interface
	agents *agents
	ledger *ledger
	log    *slog.Logger
}

// Start has nothing to deliver.
func (i *importer) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// WaitForSync imports, and tries again until it succeeds or ctx ends.
func (i *importer) WaitForSync(ctx context.Context) error {
	if !i.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("caches not filled: %w", ctx.Err())
	}
	for {
		began := time.Now()
		n, err := i.importAll(ctx)
		if err == nil {
			i.log.Info("imported", "services", n, "took", time.Since(began).Round(time.Millisecond).String())
			close(i.ledger.imported)
			return nil
		}
		i.log.Warn("import failed; nothing is allocated before it succeeds", "error", err)
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
func (i *importer) importAll(ctx context.Context) (int, error) {
	namespaces, err := i.namespaceLabels(ctx)
	if err != nil {
		return 0, err
	}
	list, err := i.listServices(ctx)
	if err != nil {
		return 0, err
	}
	i.ledger.do(func(a *ipam.Allocator) []types.NamespacedName {
		// With the ledger locked: read before, they could overwrite what the
		// reconciles of pools and nodes have told it meanwhile.
		var pools []lb.Pool
		var nodes map[netip.Addr]string
		if pools, err = i.poolSources.read(ctx); err != nil {
			return nil
		}
		if nodes, err = readNodes(ctx, i.cache); err != nil {
			return nil
		}
		if _, err = i.agents.read(ctx); err != nil {
			return nil
		}
		a.SetPools(pools)
		a.SetNodes(nodes)
		var heirs []lb.Request
		for _, s := range list {
			r := s.request(namespaces, i.kubevip)
			r.Leased = i.agents.leased(s.service)
			a.Import(r, s.published)
			if inherits(s.service, s.class) {
				heirs = append(heirs, r)
			}
		}
		// What was given comes before what is only asked for.
		slices.SortStableFunc(heirs, func(a, b lb.Request) int { return a.Created.Compare(b.Created) })
		for _, r := range heirs {
			a.Settle(r, nil)
		}
		a.SettleAll()
		return nil // every Service is in the controller's queue anyway
	})
	if err != nil {
		return 0, err
	}
	return len(list), nil
}

// held is a Service as far as importing needs it.
type held struct {
	service   *corev1.Service
	class     *config.Class
	left      bool // see leftBy
	published []netip.Addr
}

func (h held) request(namespaces map[string]map[string]string, m *kubevipMap) lb.Request {
	labels, known := namespaces[h.service.Namespace]
	if !known || h.left || h.service.DeletionTimestamp != nil {
		return unchanged(h.service, h.class, m.current())
	}
	r, _ := m.requestOf(h.service, h.class, labels)
	return r
}

// contextOf is what counts for Services of class in a namespace with labels.
func contextOf(class *config.Class, labels map[string]string, theirs *kubevip.Config) compat.Context {
	return compat.Context{NamespaceLabels: labels, Dialects: class.Pools, KubeVIP: theirs, Elsewhere: class.Backend == config.KubeVIP}
}

// unchanged is the request of a Service that is being deleted, or whose namespace
// is not known yet: it keeps exactly what it has until then, gets nothing new,
// waits for nothing, and does not move.
func unchanged(s *corev1.Service, class *config.Class, theirs *kubevip.Config) lb.Request {
	r := contextOf(class, nil, theirs).Request(s)
	r.Evidence = evidenceOf(s, class)
	asIs := lb.Rebuilt(lb.Ready, "", true)
	r.Invalid = &asIs
	if said, known := reasonOn(s); known {
		r.Invalid = &said
	}
	return r
}

func (i *importer) listServices(ctx context.Context) ([]held, error) {
	var out []held
	opts := metav1.ListOptions{Limit: importPage, FieldSelector: "spec.type=" + string(corev1.ServiceTypeLoadBalancer)}
	for {
		page, err := i.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list services: %w", err)
		}
		for n := range page.Items {
			s := &page.Items[n]
			class := servedBy(i.config, s)
			left := leftBy(i.config, s)
			if class = cmp.Or(class, left); class == nil {
				continue
			}
			s.ManagedFields = nil
			out = append(out, held{service: s, class: class, left: left != nil, published: publishedOf(s, class)})
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

func (i *importer) namespaceLabels(ctx context.Context) (map[string]map[string]string, error) {
	var list corev1.NamespaceList
	if err := i.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list.Items))
	for _, ns := range list.Items {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}
