package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Agent shows what the agent of one node announces. The object has the name of
// the node. The agent creates it and writes it at most once a second.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=fairlead
// +kubebuilder:printcolumn:name="Announced",type=integer,JSONPath=`.status.announced`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status AgentStatus `json:"status,omitempty"`
}

// AgentStatus is written by the node's agent.
type AgentStatus struct {
	// Announced is the number of addresses that the node announces.
	//
	// +optional
	Announced int32 `json:"announced,omitempty"`

	// Addresses that the node announces, at most 500 of them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Addresses []Announcement `json:"addresses,omitempty"`

	// Leases that the node has or requests from DHCP servers, for Services whose
	// address is assigned by DHCP. The controller publishes them in the status of
	// the Services.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=atomic
	Leases []Lease `json:"leases,omitempty"`

	// Peers are the routers that the node announces addresses to by BGP.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Peers []Peer `json:"peers,omitempty"`

	// Refused are objects about BGP that the node does not use, or not entirely, for
	// reasons that only agents know. The controller reports them on the objects.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Refused []Refused `json:"refused,omitempty"`

	// Carried are addresses that have moved to this node and have established connections
	// through the node that had them before, at most 500 of them. This node sends the packets of
	// these connections there.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Carried []CarriedAddress `json:"carried,omitempty"`

	// Unannounced are addresses of Services that no node announces, with the reason,
	// at most 500 of them. One of the agents that are alive reports each.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Unannounced []Unannounced `json:"unannounced,omitempty"`

	// Lost are the nodes whose agent stopped answering, as long as their Node
	// objects exist. At most three agents report each.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Lost []string `json:"lost,omitempty"`

	// Version of the agent.
	//
	// +optional
	Version string `json:"version,omitempty"`

	// Interfaces of the node, without those that lead to pods, and kube-ipvs0.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Interfaces []Interface `json:"interfaces,omitempty"`

	// Gateways of the node's default routes.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Gateways []string `json:"gateways,omitempty"`

	// NameServers of the node, as in its resolv.conf, without those on the node and in
	// the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	NameServers []string `json:"nameServers,omitempty"`

	// KubeProxy is what the health check of kube-proxy on the node answers.
	// Healthy; Unhealthy: it was healthy since the node's start and is not now;
	// Never: it was not healthy yet; Absent: the node works without kube-proxy.
	//
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Never;Absent
	KubeProxy string `json:"kubeProxy,omitempty"`

	// Conditions of the agent. Ready: the node can announce, or the reason why not.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Values of AgentStatus.KubeProxy.
const (
	KubeProxyHealthy   = "Healthy"
	KubeProxyUnhealthy = "Unhealthy"
	KubeProxyNever     = "Never"
	KubeProxyAbsent    = "Absent"
)

// Announcement is one address that a node announces.
type Announcement struct {
	// Address that is announced.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
	// Services that have the address, as namespace/name.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Services []string `json:"services"`
	// Interface on which the address is announced.
	//
	// +optional
	Interface string `json:"interface,omitempty"`
	// Protocol by which the address is announced.
	//
	// +kubebuilder:validation:Enum=ARP;NDP;BGP
	Protocol string `json:"protocol"`
	// Since is when the node started to announce the address.
	Since metav1.Time `json:"since"`
}

// Peer is the session of a node with one router.
type Peer struct {
	// Name of the peer.
	//
	// +kubebuilder:validation:MaxLength=300
	Name string `json:"name"`
	// Address of the router.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
	// ASN of the router.
	//
	// +optional
	ASN int64 `json:"asn,omitempty"`
	// State of the session, as in RFC 4271: Established, or Idle if there is none. Agents do not
	// report the states between, which change with every attempt.
	//
	// +kubebuilder:validation:Enum=Idle;Connect;OpenSent;OpenConfirm;Established
	State string `json:"state"`
	// Since is when the session began or, if there is none, when the last one was lost.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Established counts the sessions since the agent started.
	//
	// +optional
	Established int64 `json:"established,omitempty"`
	// Prefixes that were announced to the router.
	//
	// +optional
	Prefixes int32 `json:"prefixes,omitempty"`
	// BFD is the state of BFD with the router, if the peer has a profile.
	//
	// +optional
	// +kubebuilder:validation:Enum=AdminDown;Down;Init;Up
	BFD string `json:"bfd,omitempty"`
	// Reason is PeerReady, or what is wrong.
	//
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// Message says it in a sentence, with the router's own words.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// Refused is an object that a node does not use, or not entirely.
type Refused struct {
	// Kind of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Reason why it is not used.
	//
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// Message says it in a sentence.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// CarriedAddress is one address with connections through a former node.
type CarriedAddress struct {
	// Address that has moved.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
	// Node that had the address before and has the connections.
	//
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Connections that continue through that node. The number is updated every ten seconds.
	Connections int32 `json:"connections"`
	// Since is when that node gave the address up.
	Since metav1.Time `json:"since"`
}

// Unannounced is one address that no node announces.
type Unannounced struct {
	// Address that nobody announces.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
	// Services that have the address, as namespace/name.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Services []string `json:"services"`
	// Reason why no node announces it.
	//
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// Message says it in a sentence.
	//
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// Since is when the last node stopped to announce it, or when the agent first
	// saw it unannounced.
	Since metav1.Time `json:"since"`
}

// Interface is one interface of a node.
type Interface struct {
	// Name of the interface.
	//
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name"`
	// Up says whether the interface has a link.
	Up bool `json:"up"`
	// Addresses of the interface with the length of their prefix, without those
	// that Fairlead put there, those that a Service publishes, and link-local IPv6
	// addresses.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// Obstacle is why the node cannot announce on this interface; empty if it can.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Obstacle string `json:"obstacle,omitempty"`
	// Families are the IP families of which the node can announce addresses on this
	// interface.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=2
	// +listType=atomic
	Families []string `json:"families,omitempty"`
	// NamedOnly are those of them for which a pool has to name the interface: it has no
	// address of that family, or its name is excluded.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=2
	// +listType=atomic
	NamedOnly []string `json:"namedOnly,omitempty"`
}

// AgentList is a list of agents.
//
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Agent `json:"items"`
}
