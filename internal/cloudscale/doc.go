// Package cloudscale speaks the REST API of cloudscale.ch. It knows nothing of
// Kubernetes, nor of what load balancers are wanted.
//
// It is a client of our own and not cloudscale's SDK, because the SDK neither
// waits nor tries again, loses the status of an answer that is not JSON, does
// not tell a write that failed from one whose outcome nobody knows, and cannot
// set a field to nothing. We need a tenth of what it has.
//
// How long it waits: a call takes at most Options.Timeout for each attempt, and
// pauses for a second or two altogether between attempts. Whatever takes
// longer, the cloud's maintenance or a load balancer that is being changed, is
// an Error, and RetryAfter tells when to come back.
package cloudscale
