package lb

// Reasons on agents.
const (
	AgentReady    Code = "AgentReady"
	AgentIsolated Code = "AgentIsolated"
	AgentLeaving  Code = "AgentLeaving"
	AgentConflict Code = "AgentConflict"
)

// Reasons on nodes that are servers of a cloud.
const (
	NodeNotFound       Code = "NodeNotFound"
	NodeAmbiguous      Code = "NodeAmbiguous"
	NodeForeign        Code = "NodeForeign"
	NodeAddressUnknown Code = "NodeAddressUnknown"
)

var agentReasons = map[Code]About{
	AgentReady: {On: "Agent", Ready: true,
		Means: "The node announces the addresses that are its own.",
		Do:    "Nothing.",
		text:  "The node announces what is its own; it sees %s.", sample: []any{"2 other agents"}},
	AgentIsolated: {On: "Agent", Warning: true,
		Means: "The agent reaches neither another agent nor the API server, and announces nothing.",
		Do:    "Look for what keeps the node off the network.",
		text:  "The agent reaches neither another agent nor the API server, and announces nothing. Look for what keeps the node off the network."},
	AgentLeaving: {On: "Agent",
		Means: "The agent ends, and hands its addresses over.",
		Do:    "Nothing.",
		text:  "The agent ends, and hands its addresses over."},
	AgentConflict: {On: "Agent", Warning: true,
		Means: "Hosts on the LAN that are no nodes use addresses of Services.",
		Do:    "Find the hosts by their MAC addresses.",
		text:  "Other hosts use %s. Give them other addresses, or exclude these from the pools.", sample: []any{"192.0.2.7 (02:00:5e:10:00:01)"}},
}

var nodeReasons = map[Code]About{
	NodeNotFound: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to say what it is, but the cloud has no such server.",
		Do:    "Register the node under the name of its server, or with its providerID. Check that the credentials are for the project or account that the server is in.",
		text:  "Node %s stays uninitialized: %s has no server %s in the project or account of the credentials. Register the node under the name of its server (the kubelet's --hostname-override), or with its providerID.", sample: []any{"worker-1", "cloud.example", `named "worker-1"`}},
	NodeAmbiguous: {On: "Node", Warning: true, Event: true,
		Means:  "A new node waits for the cloud to say what it is, but several servers have its name.",
		Do:     "Give the servers different names, or set the node's spec.providerID.",
		text:   "%d servers are named %q, so the node stays uninitialized. Set the node's spec.providerID to the one that it is (%s, %s, …), or rename the others.",
		sample: []any{2, "worker-1", "cloud://6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e", "cloud://0f7a3c0e-98f7-4c53-8d0b-70f0a6a3f4f6"}},
	NodeForeign: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to say what it is, but its providerID is not one of this cloud.",
		Do:    "If the node is of this cloud, delete the Node and register it again without a providerID, or with the right one; if not, remove its taint.",
		text:  "Node %s stays uninitialized: its providerID %s is not like %s. If the node is a server of %s, delete the Node and register it again without a providerID. If not, remove its taint node.cloudprovider.kubernetes.io/uninitialized.", sample: []any{"worker-1", "aws:///eu-central-2a/i-0abc", "cloud://UUID", "cloud.example"}},
	NodeAddressUnknown: {On: "Node", Warning: true, Event: true,
		Means: "The kubelet was told an address of the node that the cloud does not know its server by.",
		Do:    "Give the kubelet an address of the server in --node-ip, or none, and restart it.",
		text:  "The kubelet of node %s was told to use %s (--node-ip), but the cloud knows the server by %s; so %s. Give the kubelet one of these addresses, or none, and restart it.", sample: []any{"worker-1", "10.9.9.9", "5.102.148.123, 2a06:c01:1000:1165::123, 10.1.1.123", "it stays uninitialized"}},
}
