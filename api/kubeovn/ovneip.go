package kubeovn

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TypeRouterPort is the type of OvnEips of router ports, and of load balancers: unlike
// the other types, it comes without NAT rules.
const TypeRouterPort = "lrp"

// OvnEip is an address of an external subnet. kube-ovn allocates it: it writes the
// address into the spec, then into the status.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ovn-eips,singular=ovn-eip,scope=Cluster,shortName=oeip
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="V4IP",type=string,JSONPath=`.status.v4Ip`
// +kubebuilder:printcolumn:name="V6IP",type=string,JSONPath=`.status.v6Ip`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Nat",type=string,JSONPath=`.status.nat`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="ExternalSubnet",type=string,JSONPath=`.spec.externalSubnet`
type OvnEip struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OvnEipSpec   `json:"spec"`
	Status OvnEipStatus `json:"status,omitempty,omitzero"`
}

// OvnEipSpec is what is asked for.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OvnEipSpec struct {
	// ExternalSubnet to which the address belongs.
	//
	// +optional
	ExternalSubnet string `json:"externalSubnet,omitempty"`

	// V4IP asks for an address; "" is any. For a subnet of IPv6 alone it has an IPv6
	// address.
	//
	// +optional
	V4IP string `json:"v4Ip,omitempty"`

	// V6IP is written by kube-ovn.
	//
	// +optional
	V6IP string `json:"v6Ip,omitempty"`

	// MACAddress is written by kube-ovn.
	//
	// +optional
	MACAddress string `json:"macAddress,omitempty"`

	// Type is lrp, lsp or nat.
	//
	// +optional
	Type string `json:"type,omitempty"`
}

// OvnEipStatus is what kube-ovn has allocated.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OvnEipStatus struct {
	// Type is lrp, lsp or nat.
	//
	// +optional
	Type string `json:"type,omitempty"`

	// NAT names the rules that use the address; "" is none.
	//
	// +optional
	NAT string `json:"nat,omitempty"`

	// Ready says whether the address is allocated.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// V4IP is the IPv4 address.
	//
	// +optional
	V4IP string `json:"v4Ip,omitempty"`

	// V6IP is the IPv6 address.
	//
	// +optional
	V6IP string `json:"v6Ip,omitempty"`

	// MACAddress goes with the address.
	//
	// +optional
	MACAddress string `json:"macAddress,omitempty"`
}

// OvnEipList is a list of OvnEips.
//
// +kubebuilder:object:root=true
type OvnEipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OvnEip `json:"items"`
}
