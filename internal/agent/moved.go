package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/lb"
)

// keptPatience is how long an event about a move waits for the number of connections that are
// kept. After a second, packets of connections that nobody has listed are reset.
const keptPatience = time.Second

// move is that an address has come here from another node.
type move struct {
	addr      netip.Addr
	epoch     uint64
	last, why string
	until     time.Time // the event is written, the latest
	tenants   []tenancy // that it is for
}

func (a *agent) movedReason(m *move) lb.Reason {
	return lb.Moved.With(m.addr, m.last, a.node, m.why, a.keptSentence(m))
}

// reportMoves writes events about moves whose connections are known by now, or that have waited
// for long enough.
func (a *agent) reportMoves(now time.Time) {
	a.moves = slices.DeleteFunc(a.moves, func(m move) bool {
		if now.Before(m.until) && a.isHere(&m) && !a.keptKnown(&m) {
			return false
		}
		reason := a.movedReason(&m)
		for _, o := range a.directory.tenants(m.addr) {
			pool, _ := a.directory.pool(m.addr, o)
			if (tenancy{o.Request.Service, o.Request.UID, pool}).among(m.tenants) {
				a.reporter.event(&o.Request, pool, reason)
			}
		}
		return true
	})
}

// isHere says whether the address has not moved on.
func (a *agent) isHere(m *move) bool {
	h := a.held[m.addr]
	return h != nil && h.up && h.epoch == m.epoch
}

// keptKnown says whether it is known what becomes of established connections.
func (a *agent) keptKnown(m *move) bool {
	if _, member := a.members[m.last]; !member || a.keepLimit(m.addr) == 0 {
		return true
	}
	kept, ok := a.carrying.Kept(m.addr, m.epoch)
	return ok && !kept.Unlisted && !kept.Pending
}

// keptSentence says what becomes of established connections.
func (a *agent) keptSentence(m *move) string {
	if _, member := a.members[m.last]; !member {
		return ""
	}
	var why string
	switch {
	case a.carrying == nil:
		why = "agents do not gossip"
	case a.directory.placed(m.addr):
		why = "a cloud leads the address to one node at a time"
	case a.keepLimit(m.addr) == 0:
		why = "the limit is 0"
	default:
		if !a.isHere(m) {
			return "" // it has moved on
		}
		kept, ok := a.carrying.Kept(m.addr, m.epoch)
		switch {
		case ok && kept.Unlisted:
			why = fmt.Sprintf("the agent of node %s did not list them", m.last)
		case !ok || kept.Pending:
			return " It is not known yet how many established connections are kept."
		case kept.Unreachable:
			why = fmt.Sprintf("node %s does not answer on the interface", m.last)
		default:
			return a.keptNumber(m.addr, kept.Connections)
		}
	}
	return " Established connections are not kept: " + why + "."
}

func (a *agent) keptNumber(addr netip.Addr, n int) string {
	text := fmt.Sprintf(" %d established connections are kept.", n)
	if n == 1 {
		text = " 1 established connection is kept."
	}
	if len(a.directory.routes(addr)) > 0 {
		text += " Connections that routers lead to another node are not."
	}
	return text
}
