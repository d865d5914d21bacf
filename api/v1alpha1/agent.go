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

	// Conditions of the agent. Ready: the node can announce, or the reason why not.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

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

// AgentList is a list of agents.
//
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Agent `json:"items"`
}
