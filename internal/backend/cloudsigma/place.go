package cloudsigma

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/lb"
)

// controlPlane is the label of nodes that are the last to carry an address.
const controlPlane = "node-role.kubernetes.io/control-plane"

// noAgent is the obstacle of a node without an agent that works.
const noAgent = "it has no agent that works"

// candidate is a node and what speaks against it.
type candidate struct {
	node   *lb.Node
	server *cloudsigma.Server // nil if it is not known
	// obstacle is why the node cannot carry an address; "" if it can.
	obstacle string
	// dead says that nothing runs there that could end in order.
	dead bool
}

// candidates are all nodes, sorted by name. local are the nodes with a serving
// endpoint; nil if that does not matter. Agents are needed unless pods carry addresses.
func candidates(nodes []lb.Node, a *account, local map[string]bool, pods bool) []candidate {
	out := make([]candidate, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		c := candidate{node: n}
		c.server, c.obstacle = serverOf(n, a)
		switch {
		case c.obstacle != "":
		case c.server.Status == cloudsigma.Stopped || c.server.Status == cloudsigma.Paused:
			c.obstacle = "its server is " + c.server.Status
		case !n.Ready:
			c.obstacle = "it is not Ready"
		case n.Lost:
			c.obstacle = "its agent stopped answering"
		case !n.Receives:
			c.obstacle = "it is excluded from load balancing, or about to be removed"
		case !n.Agent && !pods:
			c.obstacle = noAgent
		case local != nil && !local[n.Name]:
			c.obstacle = "no pod of the Service serves there"
		}
		c.dead = c.server == nil || c.server.Status == cloudsigma.Stopped || c.server.Status == cloudsigma.Paused || !n.Ready || n.Lost
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y candidate) int { return strings.Compare(x.node.Name, y.node.Name) })
	return out
}

// serverOf finds a node's server by its providerID or, as long as it has none, by its
// name; if it cannot, it says why.
func serverOf(n *lb.Node, a *account) (*cloudsigma.Server, string) {
	if n.ProviderID != "" {
		id, err := cloudsigma.ServerID(n.ProviderID)
		if err != nil {
			return nil, "it has no server: " + err.Error()
		}
		s, ok := a.servers[id]
		if !ok {
			return nil, "CloudSigma has no server " + id
		}
		return &s, ""
	}
	var found *cloudsigma.Server
	for _, s := range a.servers {
		if s.Name != n.Name {
			continue
		}
		if found != nil {
			return nil, "several servers have its name, and it has no providerID"
		}
		found = &s
	}
	if found == nil {
		return nil, "no server has its name, and it has no providerID"
	}
	return found, ""
}

// placement is where an address is to be.
type placement struct {
	Address netip.Addr
	// Node and Server are where it is attached; empty if it is not, because the nodes
	// may use it as they are.
	Node, Server string
	// Carriers are the nodes that may carry it.
	Carriers []string
	// Why no node can carry it; "" if one can.
	Why string
}

// before is where an address was.
type before struct {
	node string
	// settles says that it stays there although any node may have it.
	settles bool
}

// place decides where an address is to be. It stays on a node that may carry it: the
// one that has a card for it, or was chosen before (was). Otherwise nodes whose own
// card may have any subscribed address come first, for they need none; then the node
// with the fewest addresses (load), control-plane and cordoned nodes last. Where pods
// carry addresses, one node is chosen in any case.
func place(addr netip.Addr, a *account, all []candidate, load map[string]int, was before, pods bool) placement {
	p := placement{Address: addr}
	var best, kept *candidate
	var manual []string
	attached, any := a.attached(addr), true
	for i := range all {
		c := &all[i]
		isManual := c.carries(addr, a)
		switch {
		case isManual:
			manual = append(manual, c.node.Name)
		case c.node.Receives:
			any = false
		}
		if c.obstacle != "" {
			continue
		}
		if slices.Contains(attached, c.server.UUID) {
			return p.on(c) // it stays
		}
		if c.node.Name == was.node && (pods || was.settles || !isManual) {
			kept = c
		}
		if best == nil || c.before(best, isManual, best.carries(addr, a), load) {
			best = c
		}
	}
	switch {
	case best == nil:
		p.Why = obstacles(all, pods)
	case kept != nil && kept.carries(addr, a):
		return p.with(kept)
	case kept != nil:
		return p.on(kept)
	case !best.carries(addr, a):
		return p.on(best)
	case pods:
		return p.with(best)
	case any:
		p.Carriers = []string{lb.AnyNode}
	default:
		p.Carriers = manual
	}
	return p
}

func (p placement) on(c *candidate) placement {
	p.Node, p.Server, p.Carriers = c.node.Name, c.server.UUID, []string{c.node.Name}
	return p
}

// with is on without a card for the address.
func (p placement) with(c *candidate) placement {
	p.Node, p.Carriers = c.node.Name, []string{c.node.Name}
	return p
}

// carries says whether the node may have an address as it is: its own card is in mode
// manual, and the account is subscribed to the address.
func (c *candidate) carries(addr netip.Addr, a *account) bool {
	ip := a.ips[addr]
	if c.server == nil || !ip.Subscribed() {
		return false
	}
	own := c.server.PublicNIC()
	return own != nil && own.Manual(addr)
}

func (c *candidate) serverID() string {
	if c.server == nil {
		return ""
	}
	return c.server.UUID
}

func (c *candidate) before(o *candidate, manual, theirs bool, load map[string]int) bool {
	return cmp.Or(
		last(!manual, !theirs),
		last(c.node.Cordoned, o.node.Cordoned),
		last(c.controls(), o.controls()),
		cmp.Compare(load[c.node.Name], load[o.node.Name]),
	) < 0
}

func (c *candidate) controls() bool {
	_, is := c.node.Labels[controlPlane]
	return is
}

// last puts what is true after what is not.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// maxObstacles is how many nodes a sentence names.
const maxObstacles = 5

// obstacles of all nodes, as a sentence without its full stop.
func obstacles(all []candidate, pods bool) string {
	if len(all) == 0 {
		return "there is no node"
	}
	if !pods && !slices.ContainsFunc(all, func(c candidate) bool { return c.node.Agent }) {
		return "no node has an agent that works; install Fairlead's agents (chart value agent.enabled), or set cloudsigma.pods in the configuration"
	}
	var parts []string
	for i, c := range all {
		if i == maxObstacles {
			parts = append(parts, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		parts = append(parts, "node "+c.node.Name+": "+c.obstacle)
	}
	return strings.Join(parts, "; ")
}

// localTo are the nodes on which a pod of a Service with policy Local serves; nil for
// all others.
func localTo(s *lb.Service, endpoints []lb.Endpoint) map[string]bool {
	if !s.Local {
		return nil
	}
	out := map[string]bool{}
	for _, e := range endpoints {
		if e.Serving || e.Ready {
			out[e.Node] = true
		}
	}
	return out
}
