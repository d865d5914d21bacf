package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

// controlFaults happen to the control plane, to objects, or are done by people and other
// programs. But where a status is written by somebody else, or its pool says so, no
// address moves.
var controlFaults = []fault{
	{Kind: Kind{Name: "API server killed", NoAPI: true, Least: time.Second, Most: 8 * time.Second}, struck: nothing, mended: nothing,
		strike: func(ctx context.Context, w *world, _ *target) error { return w.Cluster.Kill(ctx, sandbox.ControlHost) },
		mend: func(ctx context.Context, w *world, _ *target) error {
			return w.Cluster.Restart(ctx, sandbox.ControlHost)
		}},
	{Kind: Kind{Name: "controller killed"}, struck: nothing,
		strike: func(_ context.Context, w *world, t *target) error { return w.replica(t.pick).signal(syscall.SIGKILL) }},
	{Kind: Kind{Name: "all controllers killed"}, struck: nothing,
		strike: func(_ context.Context, w *world, _ *target) (err error) {
			for _, r := range w.replicas {
				err = errors.Join(err, r.signal(syscall.SIGKILL))
			}
			return err
		}},
	// One that led and wakes up after its lease has ended may write beside its successor.
	{Kind: Kind{Name: "controller stopped", Least: time.Second, Most: 10 * time.Second}, struck: nothing, mended: invariant.Allowance{Status: rewritten},
		strike: func(_ context.Context, w *world, t *target) error { return w.replica(t.pick).signal(syscall.SIGSTOP) },
		mend:   func(_ context.Context, w *world, t *target) error { return w.replica(t.pick).signal(syscall.SIGCONT) }},
	{Kind: Kind{Name: "pool edited", NeedsAPI: true, Least: time.Second, Most: 4 * time.Second}, struck: planned, mended: planned,
		strike: func(ctx context.Context, w *world, t *target) error {
			return w.editPool(ctx, edits[int(t.pick)%len(edits)], t)
		},
		mend: func(ctx context.Context, w *world, t *target) error { return w.editPool(ctx, restore, t) }},
	{Kind: Kind{Name: "hostile Services", NeedsAPI: true, Least: 2 * time.Second, Most: 5 * time.Second}, struck: nothing, mended: nothing,
		strike: func(_ context.Context, w *world, t *target) error { t.end = w.background(w.hostile(t)); return nil },
		mend:   endAndSweep},
	{Kind: Kind{Name: "Services come and go", NeedsAPI: true, Least: 2 * time.Second, Most: 5 * time.Second}, struck: nothing, mended: nothing,
		strike: func(_ context.Context, w *world, t *target) error { t.end = w.background(w.comeAndGo(t)); return nil },
		mend:   endAndSweep},
	{Kind: Kind{Name: "conflicting writers", NeedsAPI: true, Least: 2 * time.Second, Most: 5 * time.Second}, struck: nothing, mended: nothing,
		strike: func(_ context.Context, w *world, t *target) error { t.end = w.background(w.conflict); return nil },
		mend:   func(ctx context.Context, _ *world, t *target) error { return t.end(ctx) }},
	{Kind: Kind{Name: "status wiped by another", NeedsAPI: true}, struck: invariant.Allowance{Silence: rewritten, Move: aftermath, Status: rewritten},
		strike: func(ctx context.Context, w *world, t *target) error { return w.publish(ctx, t.service) }},
	{Kind: Kind{Name: "another's address in a status", NeedsAPI: true}, struck: invariant.Allowance{Silence: rewritten, Move: aftermath, Status: rewritten},
		strike: func(ctx context.Context, w *world, t *target) error {
			other := w.services[int(t.pick+1)%len(w.services)]
			return w.publish(ctx, t.service, other.texts()...)
		}},
}

func endAndSweep(ctx context.Context, w *world, t *target) error {
	return errors.Join(t.end(ctx), w.sweep(ctx))
}

// publish writes addresses into a Service's status by hand.
func (w *world) publish(ctx context.Context, s *service, addrs ...string) error {
	ingress := []map[string]string{}
	for _, a := range addrs {
		ingress = append(ingress, map[string]string{"ip": a, "ipMode": "VIP"})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": ingress}}})
	if err != nil {
		return err
	}
	return w.api.Status().Patch(ctx, s.object(), kube.RawPatch(types.MergePatchType, patch))
}

// edits are what people do to a pool while Services have its addresses. None may cost one
// its address.
var edits = []func(*v1alpha1.PoolSpec, *world, *target){
	func(p *v1alpha1.PoolSpec, _ *world, t *target) { // what somebody has is excluded
		for _, a := range t.service.addrs {
			p.Exclude = append(p.Exclude, v1alpha1.Span(a.String()))
		}
	},
	func(p *v1alpha1.PoolSpec, _ *world, _ *target) { p.Addresses = upperHalf },
	func(p *v1alpha1.PoolSpec, _ *world, _ *target) { p.Order, p.Priority = v1alpha1.Descending, 5 },
	func(p *v1alpha1.PoolSpec, _ *world, _ *target) { p.Disabled = true },
	func(p *v1alpha1.PoolSpec, _ *world, _ *target) { p.QuotaPerNamespace = 1 },
	func(p *v1alpha1.PoolSpec, _ *world, _ *target) { p.Sharing = v1alpha1.SharingForbidden },
}

func restore(p *v1alpha1.PoolSpec, _ *world, _ *target) { *p = poolSpec() }

func (w *world) editPool(ctx context.Context, edit func(*v1alpha1.PoolSpec, *world, *target), t *target) error {
	return site.Await(ctx, site.Long, func() error { // the controller writes it, too
		pool := &v1alpha1.Pool{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: poolName}, pool); err != nil {
			return err
		}
		edit(&pool.Spec, w, t)
		return w.api.Update(ctx, pool)
	})
}

// background does something until it is ended.
func (w *world) background(do func(context.Context) error) (end func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	return func(context.Context) error {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// conflict changes labels and annotations of all Services all the time.
func (w *world) conflict(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		for _, s := range w.services {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/writer":"%d"},"labels":{"example.com/turn":"%d"}}}`, n, n%7)
			if err := w.api.Patch(context.WithoutCancel(ctx), s.object(), kube.RawPatch(types.MergePatchType, patch)); err != nil {
				return err
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}
