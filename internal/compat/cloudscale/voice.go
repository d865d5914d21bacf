package cloudscale

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// voice gives events the names that cloud controllers give them.
type voice struct{}

// Voice is that of cloud controllers.
func (Format) Voice() compat.Voice { return voice{} }

func (voice) Alone() bool { return false }

func (voice) Event(reason lb.Reason, _ *lb.Request, _ *lb.Verdict) compat.Event {
	out := compat.Event{Reason: string(reason.Code), Message: reason.Text}
	if theirs := lb.Reasons[reason.Code].Cloud; theirs != "" {
		out.Reason = theirs
	}
	return out
}
