package lb

// Reasons on agents.
const (
	AgentReady    Code = "AgentReady"
	AgentIsolated Code = "AgentIsolated"
	AgentLeaving  Code = "AgentLeaving"
	AgentConflict Code = "AgentConflict"
	AgentLost     Code = "AgentLost"
	AgentUnheard  Code = "AgentUnheard"
)

var agentReasons = Table{
	AgentReady: {On: "Agent", Ready: true,
		Means: "The node announces the addresses that it owns.",
		Do:    "Nothing.",
		Text:  "The node announces the addresses that it owns."},
	AgentIsolated: {On: "Agent", Warning: true,
		Means: "The agent reaches neither another agent nor the API server, so it announces nothing.",
		Do:    "Check the network of the node.",
		Text:  "The agent reaches neither another agent nor the API server, so it announces nothing. Check the network of the node."},
	AgentLeaving: {On: "Agent",
		Means: "The agent is stopping and hands over its addresses.",
		Do:    "Nothing.",
		Text:  "The agent is stopping and hands over its addresses."},
	AgentConflict: {On: "Agent", Warning: true,
		Means: "Hosts on the LAN that are not nodes use addresses of Services.",
		Do:    "Find the hosts by their MAC addresses.",
		Text:  "Other hosts use %s. Give these hosts other addresses, or exclude the addresses from the pools.", Sample: []any{"192.0.2.7 (02:00:5e:10:00:01)"}},
	AgentLost: {On: "Agent", Warning: true,
		Means: "Other agents do not reach this agent. They announce what it announced. The list of its addresses is the last one that it reported.",
		Do:    "Check the node and its agent.",
		Text:  "The agent does not answer the agent of %s, so it counts as lost. Other nodes announce its addresses. Check the node and its agent.", Sample: []any{"worker-2"}},
	AgentUnheard: {On: "Agent", Warning: true,
		Means: "The kubelet of the node no longer reports, so what the agent reported last may not be so any more.",
		Do:    "Check the node.",
		Text:  "The kubelet of the node no longer reports, so what the agent reported last may not be so any more. Check the node."},
}
