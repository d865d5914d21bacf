package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// L2Advertisement selects the pools whose addresses are announced by ARP and NDP,
// and the nodes and interfaces that announce them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="IPAddressPools",type=string,JSONPath=`.spec.ipAddressPools`
// +kubebuilder:printcolumn:name="IPAddressPool Selectors",type=string,JSONPath=`.spec.ipAddressPoolSelectors`
// +kubebuilder:printcolumn:name="Interfaces",type=string,JSONPath=`.spec.interfaces`
// +kubebuilder:printcolumn:name="Node Selectors",type=string,priority=10,JSONPath=`.spec.nodeSelectors`
type L2Advertisement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   L2AdvertisementSpec   `json:"spec,omitempty"`
	Status L2AdvertisementStatus `json:"status,omitempty"`
}

// L2AdvertisementSpec selects pools, Services, nodes and interfaces.
//
// +kubebuilder:pruning:PreserveUnknownFields
type L2AdvertisementSpec struct {
	// IPAddressPools selects pools by name, in addition to those that
	// ipAddressPoolSelectors match. If both are empty: all pools.
	//
	// +optional
	// +listType=set
	IPAddressPools []string `json:"ipAddressPools,omitempty"`

	// IPAddressPoolSelectors match the labels of pools; at least one must match.
	//
	// +optional
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`

	// NodeSelectors match the labels of nodes that may announce; at least one must
	// match. If empty, all nodes may announce.
	//
	// +optional
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// Interfaces on which the addresses are announced. A node without any of them,
	// or where they are down, does not announce. If empty: the interfaces whose own
	// network contains the address or, if there are none, all external interfaces.
	//
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`

	// ServiceSelectors match the labels of Services to announce; at least one must
	// match. If empty, all Services are announced.
	//
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`

	// PreferredNodeSelectors select nodes that announce instead of others while they
	// are eligible.
	//
	// +optional
	PreferredNodeSelectors []PreferredNode `json:"preferredNodeSelectors,omitempty"`
}

// PreferredNode adds a weight to the score of matching nodes.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PreferredNode struct {
	// Weight of matching nodes. The weights of all entries that match a node are
	// added up; the highest sum wins.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Preference matches the labels of nodes. If empty, it matches all nodes.
	Preference metav1.LabelSelector `json:"preference"`
}

// L2AdvertisementStatus shows whether the advertisement applies.
//
// +kubebuilder:pruning:PreserveUnknownFields
type L2AdvertisementStatus struct {
	// Conditions of the advertisement. Ready: the pools to which it applies, or the
	// reason why there are none. MetalLB's own CRD does not have this field.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// L2AdvertisementList is a list of advertisements.
//
// +kubebuilder:object:root=true
type L2AdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []L2Advertisement `json:"items"`
}
