// Package metallb reports what an agent does as MetalLB's speakers do: in
// ServiceL2Status and ConfigurationState objects, metrics and events. Dashboards and
// scripts made for MetalLB keep working. It is an agent.Observer: it sees what the
// agent does, and decides nothing.
//
// It waits for CRDs that are not installed yet, and writes objects in the background:
// the agent never waits for them.
package metallb
