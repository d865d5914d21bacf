package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

// nodeFaults happen to the node that has an address.
var nodeFaults = []fault{
	{Kind: Kind{Name: "cable cut", Node: true, Least: 50 * time.Millisecond, Most: 6 * time.Second}, struck: death, mended: moves,
		strike: func(_ context.Context, w *world, t *target) error { return w.Cluster.Cut(t.node) },
		mend:   func(_ context.Context, w *world, t *target) error { return w.Cluster.Heal(t.node) }},
	{Kind: Kind{Name: "node killed", Node: true, Least: time.Second, Most: 5 * time.Second}, ends: true, struck: death, mended: moves,
		strike: func(ctx context.Context, w *world, t *target) error { return w.Cluster.Kill(ctx, t.node) },
		mend: func(ctx context.Context, w *world, t *target) error {
			return errors.Join(w.Cluster.Restart(ctx, t.node), w.Run(ctx, t.node))
		}},
	{Kind: Kind{Name: "agent killed", Node: true, Most: 4 * time.Second}, ends: true, struck: moves, mended: moves,
		strike: func(ctx context.Context, w *world, t *target) error {
			return w.Agents[t.node].End(ctx, syscall.SIGKILL)
		},
		mend: startAgent},
	// To an agent that was stopped, the clock has jumped.
	{Kind: Kind{Name: "agent stopped", Node: true, Least: 100 * time.Millisecond, Most: 8 * time.Second}, struck: moves, mended: moves,
		strike: func(_ context.Context, w *world, t *target) error { return w.Agents[t.node].Signal(syscall.SIGSTOP) },
		mend:   func(_ context.Context, w *world, t *target) error { return w.Agents[t.node].Signal(syscall.SIGCONT) }},
	{Kind: Kind{Name: "agent terminated", Node: true, Most: 3 * time.Second}, ends: true, struck: planned, mended: planned,
		strike: func(ctx context.Context, w *world, t *target) error {
			return w.Agents[t.node].End(ctx, syscall.SIGTERM)
		},
		mend: startAgent},
	{Kind: Kind{Name: "agent upgraded", Node: true, NeedsAPI: true}, ends: true, struck: nothing,
		strike: func(ctx context.Context, w *world, t *target) error { return w.follow(ctx, t.node, syscall.SIGTERM) }},
	{Kind: Kind{Name: "agent killed beside its successor", Node: true, NeedsAPI: true}, ends: true, struck: nothing,
		strike: func(ctx context.Context, w *world, t *target) error { return w.follow(ctx, t.node, syscall.SIGKILL) }},
	{Kind: Kind{Name: "node cordoned", Node: true, NeedsAPI: true, Least: 200 * time.Millisecond, Most: 4 * time.Second}, struck: planned, mended: planned,
		strike: func(ctx context.Context, w *world, t *target) error { return w.cordon(ctx, t.node, true) },
		mend:   func(ctx context.Context, w *world, t *target) error { return w.cordon(ctx, t.node, false) }},
	{Kind: Kind{Name: "gossip lost", Node: true, Least: 500 * time.Millisecond, Most: 5 * time.Second},
		struck: invariant.Allowance{Two: unheard, Move: aftermath}, mended: invariant.Allowance{Two: unheard, Move: aftermath},
		strike: func(ctx context.Context, w *world, t *target) (err error) {
			t.end, err = site.Deaf(ctx, w.Cluster, t.node, w.others(t.node)...)
			return err
		},
		mend: func(ctx context.Context, _ *world, t *target) error { return t.end(ctx) }},
	{Kind: Kind{Name: "tables deleted", Node: true}, struck: moves,
		strike: func(ctx context.Context, w *world, t *target) error {
			_, err := w.Cluster.Exec(ctx, t.node, "nft", "delete table inet fairlead; delete table arp fairlead")
			return err
		}},
	{Kind: Kind{Name: "addresses removed by hand", Node: true}, struck: invariant.Allowance{Silence: outage, Move: aftermath},
		strike: func(ctx context.Context, w *world, t *target) error {
			for _, addr := range t.service.addrs {
				if owner, _ := w.check.Owner(addr, time.Time{}); owner != t.node {
					continue
				}
				if _, err := w.Cluster.Exec(ctx, t.node, "ip", "address", "del", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "eth0"); err != nil {
					return err
				}
			}
			return nil
		}},
}

func startAgent(ctx context.Context, w *world, t *target) error { return w.Run(ctx, t.node) }

// follow starts an agent beside that of a node, which then ends.
func (w *world) follow(ctx context.Context, node string, how syscall.Signal) error {
	next, err := w.Start(ctx, node)
	if err != nil {
		return err
	}
	if err := errors.Join(next.Ready(ctx), w.Agents[node].End(ctx, how)); err != nil {
		return errors.Join(err, next.Kill())
	}
	w.Agents[node] = next
	return nil
}

func (w *world) cordon(ctx context.Context, name string, yes bool) error {
	node := &corev1.Node{}
	node.Name = name
	return w.api.Patch(ctx, node, kube.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)))
}

func (w *world) others(node string) (out []string) {
	for _, n := range w.nodes {
		if n != node {
			out = append(out, n)
		}
	}
	return out
}
