package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
)

// inherit takes over the addresses that an earlier agent has left in the kernel.
// Where its fence still stands, this node goes on answering for them. Elsewhere
// other nodes may have them by now: they are removed.
func (a *agent) inherit(ctx context.Context, now time.Time) {
	a.follow(a.kernel.List())
	a.tables.inherit(now)
	for _, own := range a.kernel.Ours() {
		if !a.tables.fences[own.Interface] {
			a.remove(own.Interface, own.Addr)
			continue
		}
		h := a.held[own.Addr]
		if h == nil {
			h = &holding{up: true, epoch: 1, since: now, inherited: true}
			a.held[own.Addr] = h
		}
		h.ifaces = append(h.ifaces, own.Interface)
		a.had[own.Addr] = a.node
	}
	for addr, h := range a.held {
		a.announcer.Adopt(addr, h.ifaces)
	}
	a.announcer.Commit()
	a.inheritReceived()
	a.allClaimsDirty = true
	for addr, v := range a.tables.state.VIPs {
		a.touch(addr)
		if a.held[addr] == nil && len(v.Interfaces) > 0 {
			a.tables.set(addr, nft.VIP{Ports: v.Ports, Unclaimed: v.Unclaimed})
		}
	}
	var before v1alpha1.Agent
	if err := a.cluster.Get(ctx, types.NamespacedName{Name: a.node}, &before); err == nil {
		for _, n := range before.Status.Addresses {
			if addr, err := lb.ParseAddr(n.Address); err == nil {
				a.had[addr] = a.node
			}
		}
		a.leases.SetWritten(before.Status.Leases)
		a.inheritStatus(&before.Status)
		a.proxy.remember(proxyState(before.Status.KubeProxy))
	}
	if len(a.held) > 0 {
		a.log.Info("took over from the previous agent on this node", "addresses", len(a.held))
	}
}
