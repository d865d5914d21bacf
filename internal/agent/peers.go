package agent

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/member"
)

// peers are the addresses at which other agents should be.
type peers struct {
	mu   sync.Mutex
	list []netip.AddrPort
}

func (p *peers) set(list []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
}

// count says how many others there should be.
func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}

// join looks for agents that are not known, until ctx ends.
func (p *peers) join(ctx context.Context, g Group) {
	tick := time.NewTicker(member.JoinPeriod)
	defer tick.Stop()
	for {
		p.mu.Lock()
		list := p.list
		p.mu.Unlock()
		if len(list) > 0 {
			_, _ = g.Join(ctx, list)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// peersOf returns the addresses of the other nodes that have an agent.
func (a *agent) peersOf(nodes []corev1.Node) []netip.AddrPort {
	var out []netip.AddrPort
	strangers := sets.New[string]()
	for i := range nodes {
		n := &nodes[i]
		if n.Name == a.node {
			continue
		}
		if _, met := a.members[n.Name]; met {
			a.known.add(n.Name)
		}
		if !a.known.has(n.Name) {
			strangers.Insert(n.Name)
		} else if addr, ok := nodeAddress(n); ok {
			out = append(out, netip.AddrPortFrom(addr, a.gossipPort))
		}
	}
	a.known.setStrangers(strangers)
	return out
}
