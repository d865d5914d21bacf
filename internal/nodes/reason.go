package nodes

import "fairlead.io/internal/lb"

// Reasons on nodes that are servers of a cloud.
const (
	NodeNotFound       lb.Code = "NodeNotFound"
	NodeAmbiguous      lb.Code = "NodeAmbiguous"
	NodeForeign        lb.Code = "NodeForeign"
	NodeAddressUnknown lb.Code = "NodeAddressUnknown"
)

// Reasons of this package. Names of clouds, and what their IDs look like, are
// arguments.
var Reasons = lb.Table{
	NodeNotFound: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to initialize it, but the cloud has no such server.",
		Do:    "Register the node under the name of its server, or with its providerID. Check that the credentials belong to the project or account of the server.",
		Text:  "Node %s stays uninitialized: %s has no server %s in the project or account of the credentials. Register the node under the name of its server (the kubelet's --hostname-override), or with its providerID.", Sample: []any{"worker-1", "cloud.example", `named "worker-1"`}},
	NodeAmbiguous: {On: "Node", Warning: true, Event: true,
		Means:  "A new node waits for the cloud to initialize it, but several servers have its name.",
		Do:     "Give the servers different names, or set the node's spec.providerID.",
		Text:   "%d servers are named %q, so the node stays uninitialized. Set the node's spec.providerID to the right one (%s, %s, …), or rename the others.",
		Sample: []any{2, "worker-1", "cloud://6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e", "cloud://0f7a3c0e-98f7-4c53-8d0b-70f0a6a3f4f6"}},
	NodeForeign: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to initialize it, but its providerID is not one of this cloud.",
		Do:    "If the node is a server of this cloud, delete the Node and register it again without a providerID, or with the right one. Otherwise remove its taint.",
		Text:  "Node %s stays uninitialized: its providerID %s does not have the form %s. If the node is a server of %s, delete the Node and register it again without a providerID. Otherwise remove its taint node.cloudprovider.kubernetes.io/uninitialized.", Sample: []any{"worker-1", "aws:///eu-central-2a/i-0abc", "cloud://UUID", "cloud.example"}},
	NodeAddressUnknown: {On: "Node", Warning: true, Event: true,
		Means: "The kubelet uses an address that the cloud does not know for this server.",
		Do:    "Give the kubelet an address of the server in --node-ip, or none, and restart it.",
		Text:  "The kubelet of node %s uses %s (--node-ip), but the cloud knows the server by %s, so %s. Give the kubelet one of these addresses, or none, and restart it.", Sample: []any{"worker-1", "10.9.9.9", "5.102.148.123, 2a06:c01:1000:1165::123, 10.1.1.123", "it stays uninitialized"}},
}
