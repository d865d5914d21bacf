package cloudscale

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Dialect is the name of cloudscale's annotations among dialects.
const Dialect lb.Dialect = "cloudscale"

// Format is that of cloudscale's cloud controller manager: annotations alone. They
// say what a Service asks of its load balancer, and nothing of pools.
type Format struct{}

var _ compat.Dialect = Format{}

// Name is cloudscale.
func (Format) Name() lb.Dialect { return Dialect }

// Kinds are none.
func (Format) Kinds() []compat.Kind { return nil }

// Read has nothing to read.
func (Format) Read(compat.Objects) compat.Reading { return reading{} }

// Voice is that of cloud controllers.
func (Format) Voice() compat.Voice { return voice{} }

type reading struct{}

func (reading) Pools() []lb.Pool                             { return nil }
func (reading) Amend(*lb.Request, *lb.Service, compat.Class) {}
func (reading) Same(compat.Reading) bool                     { return true }
func (reading) Warnings() []lb.Warning                       { return nil }

type voice struct{}

func (voice) Alone() bool { return false }

// Event has the name that cloud controllers give it.
func (voice) Event(reason lb.Reason, _ *lb.Request, _ *lb.Verdict) compat.Event {
	out := compat.Event{Reason: string(reason.Code), Message: reason.Text}
	if theirs := lb.Reasons[reason.Code].Cloud; theirs != "" {
		out.Reason = theirs
	}
	return out
}
