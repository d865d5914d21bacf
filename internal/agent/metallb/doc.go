// Package metallb reports what an agent does as MetalLB's speakers do: in
// ServiceL2Status and ConfigurationState objects, metrics and events, for the
// dashboards and scripts of those who come from MetalLB. It is an agent.Observer:
// it hears what the agent does, and has no say in it.
//
// Kinds that are not installed are waited for. Objects are written in their own
// time; the agent never waits for them.
package metallb
