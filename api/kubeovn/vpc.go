package kubeovn

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Vpc is a logical router with its networks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=vpc
// +kubebuilder:subresource:status
type Vpc struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VpcSpec   `json:"spec,omitempty"`
	Status VpcStatus `json:"status,omitempty"`
}

// VpcSpec says what the router is for.
//
// +kubebuilder:pruning:PreserveUnknownFields
type VpcSpec struct {
	// Namespaces whose pods are in the Vpc.
	//
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// EnableExternal gives the router ports in external subnets.
	//
	// +optional
	EnableExternal bool `json:"enableExternal,omitempty"`

	// ExtraExternalSubnets in which the router has ports, besides the default one.
	//
	// +optional
	ExtraExternalSubnets []string `json:"extraExternalSubnets,omitempty"`

	// PolicyRoutes of the router. kube-ovn removes others from it.
	//
	// +optional
	PolicyRoutes []PolicyRoute `json:"policyRoutes,omitempty"`
}

// PolicyRoute sends some packets another way than the router's other routes.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PolicyRoute struct {
	// Priority of the route. The highest one that matches counts.
	//
	// +optional
	Priority int `json:"priority,omitempty"`

	// Match is an expression of OVN.
	//
	// +optional
	Match string `json:"match,omitempty"`

	// Action is allow, drop or reroute.
	//
	// +optional
	Action string `json:"action,omitempty"`

	// NextHopIP is where packets are sent that are rerouted.
	//
	// +optional
	NextHopIP string `json:"nextHopIP,omitempty"`
}

// VpcStatus says what kube-ovn has made.
//
// +kubebuilder:pruning:PreserveUnknownFields
type VpcStatus struct {
	// Router is the name of the logical router; "" is that of the Vpc.
	//
	// +optional
	Router string `json:"router,omitempty"`

	// Subnets of the Vpc.
	//
	// +optional
	Subnets []string `json:"subnets,omitempty"`

	// ExtraExternalSubnets in which the router has ports.
	//
	// +optional
	ExtraExternalSubnets []string `json:"extraExternalSubnets,omitempty"`
}

// VpcList is a list of Vpcs.
//
// +kubebuilder:object:root=true
type VpcList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Vpc `json:"items"`
}
