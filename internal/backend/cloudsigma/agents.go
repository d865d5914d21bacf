package cloudsigma

import (
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/lb"
)

// agentPatience is how long, from the first look on, a published address stays on a node
// that was never seen with an agent. If everything is installed at once to replace
// another controller, the controller runs before most agents do; to move the addresses
// meanwhile would interrupt what works.
const agentPatience = time.Minute

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
	attached := o.account.attached(addr)
	for i := range o.nodes {
		c := &o.nodes[i]
		if c.obstacle == noAgent && !b.agents[c.node.Name] && slices.Contains(attached, c.server.UUID) {
			return c, left
		}
	}
	return nil, 0
}
