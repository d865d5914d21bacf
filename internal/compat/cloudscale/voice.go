package cloudscale

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/cloud"
	"fairlead.io/internal/lb"
)

// voice gives events the names that cloud controllers give them.
type voice struct{}

// Voice is that of cloud controllers.
func (Dialect) Voice() compat.Voice { return voice{} }

func (voice) Alone() bool { return false }

func (voice) Event(reason lb.Reason, _ *lb.Request, _ *lb.Verdict) compat.Event {
	return compat.Event{Reason: cloud.EventName(reason), Message: reason.Text}
}
