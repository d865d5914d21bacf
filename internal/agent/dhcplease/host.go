package dhcplease

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

// Host is the agent's loop, as far as leases need it. All methods are called from
// the loop's goroutine, inside calls of Leases.
type Host interface {
	// Elect returns which node should have a lease, and what this node has to do;
	// mine is what this node claims, if anything.
	Elect(key member.Key, a elect.Address, mine *elect.Claim) (elect.Outcome, elect.Task)
	// Serving fills in where endpoints of the Services serve.
	Serving(a *elect.Address, services []types.NamespacedName)
	// Isolated says that this node is cut off, and must have nothing.
	Isolated() bool
	// Settled says whether something may be taken on an interface already.
	Settled(iface string, now time.Time) bool
	// Interface returns the interface on which this node would lease: one that is
	// named; of several the one whose network has last, then the first. It is "" if
	// there is none.
	Interface(f lb.Family, last netip.Addr, a *elect.Address) (name string, index int)

	// Unusable says why an address cannot be a Service's, or "": it is a node's, or,
	// where thorough, a Service has it inside the cluster.
	Unusable(addr netip.Addr, thorough bool) string
	// Using returns all Services that have an address.
	Using(addr netip.Addr) []*lb.Request
	// Probing says that it is not known yet whether another host uses an address.
	Probing(addr netip.Addr) bool

	// Moved says that these Services may have other leased addresses now, Touched
	// that these addresses are to be decided about again.
	Moved(services ...types.NamespacedName)
	Touched(addr netip.Addr)
	// Changed says that claims and the report have changed.
	Changed()
	// Event writes an event on a Service.
	Event(r *lb.Request, pool lb.PoolKey, reason lb.Reason)
	// NotElected reports that no node can have an address, if the outcome says so.
	NotElected(addr netip.Addr, o elect.Outcome)
	// ReadReports has what the agents of all nodes report read again, for SetReported;
	// false if that cannot be.
	ReadReports() bool
	// Speaks says whether this agent is the one that reports what all know.
	Speaks() bool
}
