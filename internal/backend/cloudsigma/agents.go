package cloudsigma

import (
	"context"
	"net/netip"
	"slices"
	"time"

	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// agentPatience is how long, from the first look on, a published address stays on a node
// that was never seen with an agent. If everything is installed at once to replace
// another controller, the controller runs before most agents do; to move the addresses
// meanwhile would interrupt what works.
const agentPatience = time.Minute

// settleTime is how long an address that no NIC ties to a node stays on that of the old
// pod which carried it: the agent there starts, and takes the address. Then any node may
// have it, and the one that has it keeps it.
const settleTime = 2 * agentPatience

// recallOld finds out on which node the original's pod carries an address, if nothing on
// the Service says who does.
func (b *Backend) recallOld(ctx context.Context, w *lb.Want) error {
	if b.oldPod == nil {
		return nil
	}
	for _, addr := range w.Service.Published() {
		carriers := w.Service.Carriers[addr]
		if b.placed(addr) || len(carriers) > 1 || slices.Contains(carriers, lb.AnyNode) {
			continue
		}
		node, err := b.oldPod(ctx, compat.PodName(addr))
		if err != nil {
			return err
		}
		if node != "" {
			b.mu.Lock()
			b.chosen[addr], b.settling[addr] = node, time.Now().Add(settleTime)
			b.mu.Unlock()
		}
	}
	return nil
}

// settles says for how long an address stays on the node of an old pod; 0 if it does not.
func (b *Backend) settles(addr netip.Addr) time.Duration {
	until, is := b.settling[addr]
	if !is {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(b.settling, addr)
	}
	return max(0, left)
}

// noteAgents remembers which nodes were seen with an agent.
func (b *Backend) noteAgents(nodes []lb.Node) {
	if b.began.IsZero() {
		b.began = time.Now()
	}
	for i := range nodes {
		if nodes[i].Agent {
			b.agents[nodes[i].Name] = true
		}
	}
}

// awaited is the node on which a published address stays because its agent may be about
// to start, and for how long; nil if there is none.
func (b *Backend) awaited(o *observation, addr netip.Addr) (*candidate, time.Duration) {
	left := agentPatience - time.Since(b.began)
	if left <= 0 || !o.desired.Published[addr] {
		return nil, 0
	}
	attached, settles := o.account.attached(addr), b.settles(addr) > 0
	for i := range o.nodes {
		c := &o.nodes[i]
		here := slices.Contains(attached, c.serverID()) || settles && len(attached) == 0 && c.node.Name == b.chosen[addr]
		if c.obstacle == noAgent && !b.agents[c.node.Name] && here {
			return c, left
		}
	}
	return nil, 0
}
