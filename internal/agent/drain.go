package agent

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

const (
	// drainTime is how long routers may take to prefer other nodes to one that leaves.
	drainTime = 2 * time.Second
	// withdrawTime is how long they may take to forget it.
	withdrawTime = time.Second
	// proxyDrain is how long a node without a healthy kube-proxy goes on as the last choice of
	// routers, before it leaves the address to nodes with one.
	proxyDrain = 5 * time.Second
	// moveDrain is how long a node does whose pods of a Service are all about to end.
	moveDrain = 30 * time.Second
)

// drains is why this node is the last choice of routers, and since when. After a while it leaves
// addresses to other nodes, if there are any: else all nodes go on, because routers without a
// route are worse off than with a bad one.
type drains struct {
	// proxyDown is since when kube-proxy is not healthy here that was.
	proxyDown time.Time
	// departing is since when the node is about to go. last is what was known of it before its
	// object was deleted, if departed.
	departing time.Time
	departed  bool
	last      *elect.Node
	// moving is since when all pods here of Services with policy Local are about to end.
	moving map[types.UID]time.Time
	// due is when to look at all addresses again; zero is never.
	due time.Time
}

// followNode takes over what this node's object says that routes depend on; nil is one that was
// deleted.
func (a *agent) followNode(n *corev1.Node, now time.Time) {
	if a.departed = n == nil; a.departed && a.last != nil {
		a.last.Departing = true
	}
	if n != nil {
		a.forwarding.setNode(nodeAddresses(n))
		if id := routerID(n); id != a.routerID || !maps.Equal(n.Labels, a.peerLabels) {
			a.routerID, a.peerLabels, a.routesDirty = id, n.Labels, true
		}
		if self := a.self(); self != nil {
			last := *self
			a.last = &last
		}
	}
	self := a.self()
	if self == nil {
		return
	}
	since(&a.proxyDown, !self.ProxyHealthy && self.ProxyWasHealthy, now)
	if before := a.departing; self.Departing == before.IsZero() {
		since(&a.departing, self.Departing, now)
		a.routesDirty = true // for sessions end, or begin again
	}
}

// since notes since when a fact holds.
func since(at *time.Time, holds bool, now time.Time) {
	if !holds {
		*at = time.Time{}
	} else if at.IsZero() {
		*at = now
	}
}

// leavesToOthers says whether this node has been the last choice of routers for an address of a
// Service for long enough, and other nodes announce it without reserve to each of its routers.
func (a *agent) leavesToOthers(o *offer, of *elect.Address, routes []lb.Route, self *elect.Node, now time.Time) bool {
	service := o.Request.UID
	moving := a.moving[service]
	since(&moving, of.Moving(self), now)
	if delete(a.moving, service); !moving.IsZero() {
		a.moving[service] = moving
	}
	over, next := overdue(now, drain{a.departing, drainTime}, drain{moving, moveDrain})
	a.lookAt(next)
	proxyOver, next := overdue(now, drain{a.proxyDown, proxyDrain})
	a.lookAt(next)
	if !over && !proxyOver {
		return false
	}
	for i := range a.directory.pools.Peers {
		p := &a.directory.pools.Peers[i]
		if uses(routes, p, o.Request.Labels, self.Labels) && !a.othersReach(p, o, of, routes, over) {
			return false
		}
	}
	return true
}

// othersReach says whether another node announces an address of a Service without reserve to the
// router of a peer. Nodes of which no agent is heard count only if unheard says so: nobody knows
// whether their kube-proxy is any better than this one's.
func (a *agent) othersReach(p *lb.Peer, o *offer, of *elect.Address, routes []lb.Route, unheard bool) bool {
	for i := range a.voters {
		n := &a.voters[i]
		if _, heard := a.members[n.Name]; n.Name == a.node || !heard && !unheard {
			continue
		}
		if reach, _ := of.Announces(n); reach != elect.Reached {
			continue
		}
		for k := range a.directory.pools.Peers {
			if q := &a.directory.pools.Peers[k]; p.SameRouter(q) && uses(routes, q, o.Request.Labels, n.Labels) {
				return true
			}
		}
	}
	return false
}

// uses says whether one of the routes has a node with these labels announce addresses of a Service
// to a peer.
func uses(routes []lb.Route, p *lb.Peer, service, node labels.Set) bool {
	return slices.ContainsFunc(routes, func(r lb.Route) bool { return r.Uses(p, service, node) })
}

// drain is since when this node is the last choice, if it is, and how long it goes on.
type drain struct {
	since time.Time
	wait  time.Duration
}

// overdue says whether one of them has lasted long enough, and when the next one will have.
func overdue(now time.Time, all ...drain) (over bool, next time.Time) {
	for _, d := range all {
		if d.since.IsZero() {
			continue
		}
		switch end := d.since.Add(d.wait); {
		case !now.Before(end):
			over = true
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return over, next
}

// lookAt has all addresses looked at then; zero is never.
func (a *agent) lookAt(at time.Time) {
	if !at.IsZero() && (a.due.IsZero() || at.Before(a.due)) {
		a.due = at
	}
}

// hasDeparted says whether nothing is announced any more because the node is about to go, for
// so long that routers have forgotten it.
func (a *agent) hasDeparted(now time.Time) bool {
	if a.departing.IsZero() || len(a.routed) > 0 {
		return false
	}
	end := a.departing.Add(drainTime + withdrawTime)
	if now.Before(end) {
		a.lookAt(end)
		return false
	}
	return true
}
