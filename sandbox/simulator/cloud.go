package simulator

import (
	"context"
	"net/http"
	"net/netip"
)

// Cloud is a simulated cloud as the sandbox sees it, which runs it and puts a
// cluster into it.
type Cloud interface {
	// Title is what the cloud is called in sentences.
	Title() string
	// OnLink says that servers have the cloud's addresses on the LAN: hosts ask for
	// them there. Otherwise they send packets for them to the cloud's host.
	OnLink() bool
	// Argv are the flags of its process beside those that all have.
	Argv(Site) []string
	// Seed is what the cloud has at first: the network, and a server for each node.
	Seed(Site) ([]byte, error)
	// Authorize adds to a request the proof that it may do everything.
	Authorize(r *http.Request, secret string)
	// Power starts or stops the server of a node, if there is one.
	Power(ctx context.Context, ask Ask, node string, on bool) error
	// LeftBehind lists, one line each, what goes on to cost money when the cluster
	// is gone; what is what that is, in the plural.
	LeftBehind(ctx context.Context, ask Ask) (what string, lines []string, err error)

	// Credentials is the Secret in kube-system that the controller manager reads.
	Credentials(secret string) (name string, data map[string]string)
	// Values of Fairlead's chart, as "helm --set" takes them.
	Values(Site) []string
	// Hints are commands to try: address is that of a Service, and sandbox how the
	// sandbox's program is called.
	Hints(address, sandbox string) string
}

// Ask sends a request to the cloud's API and returns the answer's body. An answer
// that is unsuccessful is an error.
type Ask func(ctx context.Context, method, path, body string) ([]byte, error)

// Site is where a simulated cloud is, and what is in it.
type Site struct {
	Cluster string         // its name
	API     netip.AddrPort // of the cloud, for nodes and pods
	Card    string         // network card that may get addresses
	Switch  string         // network namespace of the LAN's bridge, whose ports have the names of nodes
	// Public, Floating and Reserved are prefixes: of servers and load balancers, of
	// addresses that can be moved, and those whose addresses are given to nobody.
	Public, Floating, Reserved []netip.Prefix
	LAN                        []Subnet
	Nodes                      []Node
}

// Subnet of the LAN that the nodes are in.
type Subnet struct {
	CIDR    netip.Prefix
	Gateway netip.Addr
}

// Node is a host that is a server of the cloud. It has one private address in each
// subnet, in their order.
type Node struct {
	Name            string
	Private, Public []netip.Addr
}
