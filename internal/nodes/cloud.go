package nodes

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Cloud has the servers that the nodes are.
type Cloud interface {
	// Name is how the configuration calls the cloud, and Title how sentences do:
	// cloudscale, cloudscale.ch.
	Name() string
	Title() string

	// ProviderID names a server in the spec of its Node.
	ProviderID(id string) string
	// ServerID reads a providerID. Its error says why it is none of this cloud.
	ServerID(providerID string) (string, error)

	// Taints are keys of further taints that wait for the cloud to know a Node. They
	// are removed when it does.
	Taints() []string

	// Find returns the servers that match, from a list that is at most age old.
	Find(ctx context.Context, age time.Duration, match func(id, name string) bool) ([]Server, error)
	// Get reads one server. Only if it does not exist, the error is one of which
	// cloud.IsNotFound is true: its Node is deleted then.
	Get(ctx context.Context, id string) (*Server, error)
}

// Server is a server of a cloud, as its Node shows it.
type Server struct {
	ID, Name string
	// Stopped is true of a server that is shut down; one that is about to stop, or
	// to start, is not.
	Stopped bool

	// Type, Zone and Region are values of the well-known labels.
	Type, Zone, Region string
	// Addresses in the order in which the Node shows them.
	Addresses []corev1.NodeAddress
	// Unlisted says that the server may have addresses that the cloud does not know: it
	// believes the kubelet's own.
	Unlisted bool
	// Served are addresses that Services have. A Node never shows them.
	Served []netip.Addr
}
