package kubedc

import (
	"fmt"
	"strings"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Format is the name of this configuration format.
const Format lb.Dialect = "kube-dc"

// Dialect is the format of kube-dc: annotations of Services. EIps and the objects behind
// them are not pools: each is about one address.
type Dialect struct{}

var _ compat.Dialect = Dialect{}

// Name is kube-dc.
func (Dialect) Name() lb.Dialect { return Format }

// Words are none: there are no pools.
func (Dialect) Words() lb.Words { return lb.Words{} }

// Voice is plain: kube-dc's own events are not known.
func (Dialect) Voice() compat.Voice { return compat.PlainVoice{} }

// Kinds are none.
func (Dialect) Kinds() []compat.Kind { return nil }

// Read has nothing to read.
func (Dialect) Read(compat.Objects) compat.Reading { return reading{} }

type reading struct{}

func (reading) Pools() []lb.Pool         { return nil }
func (reading) Same(compat.Reading) bool { return true }
func (reading) Warnings() []lb.Warning   { return nil }

// Amend adds what cannot be understood. What can is read by the backend. In a class with
// pools there are no EIps to ask for.
func (reading) Amend(r *lb.Request, s *lb.Service, in compat.Class) {
	addresses := r.Addresses
	if len(in.Dialects) > 0 {
		addresses = nil
	}
	wish, problems := Read(s, addresses)
	if len(in.Dialects) > 0 && wish.EIp != "" {
		problems = append(problems, fmt.Sprintf("The Service requests EIp %q, but its class has addresses from pools; remove the annotation, or use another class", wish.EIp))
	}
	if len(in.Dialects) > 0 && wish.NetworkType != "" {
		problems = append(problems, fmt.Sprintf("The Service requests an address of network type %s, but its class has addresses from pools; remove the annotation, or use another class", wish.NetworkType))
	}
	if len(problems) > 0 {
		compat.Invalid(r, lb.InvalidRequest.With(strings.Join(problems, "; ")))
	}
}
