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

type reading struct{}

func (reading) Pools() []lb.Pool                             { return nil }
func (reading) Amend(*lb.Request, *lb.Service, compat.Class) {}
func (reading) Same(compat.Reading) bool                     { return true }
func (reading) Warnings() []lb.Warning                       { return nil }
