package lb

// Reasons of the condition that says that nobody answers for an address of a Service.
// Agents report others: see Unannounced in package v1alpha1.
const (
	NoAgent       Code = "NoAgent"
	AnnouncerLost Code = "AnnouncerLost"
)

var announcedReasons = Table{
	NoAgent: {On: "Service", Warning: true, Event: true,
		Means: "No node has an agent that runs, so nobody answers for the Service's addresses.",
		Do:    "Check the DaemonSet of the agents: kubectl get daemonsets --all-namespaces; kubectl get agents. Check that the nodes are Ready.",
		Text:  "No agent announces addresses: %s. Check the DaemonSet of the agents (kubectl get daemonsets --all-namespaces) and the nodes.", Sample: []any{"the agents of worker-1 and worker-2 do not answer"}},
	AnnouncerLost: {On: "Service", Warning: true, Event: true,
		Means: "The node that announced the address does not answer, and no other node has taken it over.",
		Do:    "Check the node, and which other nodes can announce the address: kubectl get agents.",
		Text:  "Address %s is not announced. Node %s, which announced it, does not answer, and no other node has taken it over. Check that node, and why others cannot announce it: kubectl get agents.", Sample: []any{sampleAddress, "worker-1"}},
}
