package metallb

import (
	"fmt"
	"strings"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Component is the source of MetalLB's controller's events.
const Component = "metallb-controller"

// voice tells events as MetalLB's controller does: whoever looks for its words finds
// them first.
type voice struct{}

// Voice is that of MetalLB's controller.
func (Dialect) Voice() compat.Voice { return voice{} }

func (voice) Alone() bool { return true }

func (voice) Event(reason lb.Reason, r *lb.Request, v *lb.Verdict) compat.Event {
	out := compat.Event{Reason: string(reason.Code), Message: reason.Text, Component: Component}
	theirs := lb.Reasons[reason.Code].MetalLB
	if theirs == "" {
		return out
	}
	out.Reason = theirs
	switch {
	case r == nil || v == nil:
	case theirs == lb.Reasons[lb.Ready].MetalLB:
		texts := make([]string, len(v.Addresses))
		for i, a := range v.Addresses {
			texts[i] = a.String()
		}
		out.Message = fmt.Sprintf("Assigned IP %q. %s", texts, out.Message)
	case theirs == lb.Reasons[lb.PoolExhausted].MetalLB:
		out.Message = fmt.Sprintf("Failed to allocate IP for %q: %s%s", r.Service, strings.ToLower(out.Message[:1]), out.Message[1:])
	}
	return out
}
