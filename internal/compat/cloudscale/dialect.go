package cloudscale

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Format is the name of cloudscale's annotations among configuration formats.
const Format lb.Dialect = "cloudscale"

// Dialect is the format of cloudscale's cloud controller manager: annotations alone. They
// say what a Service asks of its load balancer, and nothing of pools.
type Dialect struct{}

var _ compat.Dialect = Dialect{}

// Name is cloudscale.
func (Dialect) Name() lb.Dialect { return Format }

// Words are none: there are no pools.
func (Dialect) Words() lb.Words { return lb.Words{} }

// Kinds are none.
func (Dialect) Kinds() []compat.Kind { return nil }

// Read has nothing to read.
func (Dialect) Read(compat.Objects) compat.Reading { return reading{} }

type reading struct{}

func (reading) Pools() []lb.Pool                             { return nil }
func (reading) Amend(*lb.Request, *lb.Service, compat.Class) {}
func (reading) Same(compat.Reading) bool                     { return true }
func (reading) Warnings() []lb.Warning                       { return nil }
