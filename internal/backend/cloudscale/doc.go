// Package cloudscale gives Services managed load balancers of cloudscale.ch.
//
//	what Kubernetes has        what is wanted
//	Want ───────────────────►  Desired ─┐
//	                                    ├─► Plan: steps, and what they cost ─► Apply
//	the cloud ──────────────►  Actual ──┘
//
// Observe reads, Plan decides and is pure, Apply writes as much of a plan as can
// be written now, and says when to look again. It never waits: whatever takes
// time is seen, and gone on from, at the next look. So a restart, a lost answer
// or a change by somebody else are nothing special: they are another Actual.
// Sync is all three.
//
// A load balancer that cloudscale's own controller has made is found by the same
// names and taken over as it is.
//
// The package writes nothing to Kubernetes and keeps no state that matters: what
// it remembers saves calls, or tells a change of the Service from one made by
// somebody else.
package cloudscale
