// Package cloudscale has the types and calls of the REST API of cloudscale.ch.
// How calls are sent, repeated and paced is in package cloud. It knows nothing of
// Kubernetes, nor of what load balancers are wanted.
package cloudscale
