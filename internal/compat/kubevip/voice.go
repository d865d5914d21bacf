package kubevip

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// voice names events as cloud controller managers do.
type voice struct{}

// Voice is that of cloud controllers, as kube-vip's cloud provider is one.
func (Dialect) Voice() compat.Voice { return voice{} }

func (voice) Alone() bool { return false }

// Event has the name that cloud controllers give it, on Services.
func (voice) Event(reason lb.Reason, r *lb.Request, _ *lb.Verdict) compat.Event {
	out := compat.Event{Reason: string(reason.Code), Message: reason.Text}
	if r != nil || lb.Common[reason.Code].On == "Service" || Reasons[reason.Code].On == "Service" {
		out.Reason = EventName(reason)
	}
	return out
}
