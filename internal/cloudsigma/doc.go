// Package cloudsigma has the types and calls of CloudSigma's API 2.0: servers and
// their network cards, IP addresses, tags, subscriptions. How calls are sent and
// repeated is in package cloud. It knows nothing of Kubernetes, nor of which
// addresses are wanted where.
//
// Servers and tags are changed by writing the whole object, without any protection
// against somebody else who does the same. So each change reads the object, writes
// it with everything in it that this package does not know, and reads it again:
// what is returned is what the cloud has, not what was sent to it.
package cloudsigma
