package metallb

import (
	"cmp"

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
	if r != nil && v != nil {
		verdict := *v
		verdict.Reason = reason
		reason = EventText(r, verdict)
	}
	return compat.Event{Reason: cmp.Or(EventName(reason.Code), string(reason.Code)), Message: reason.Text, Component: Component}
}
