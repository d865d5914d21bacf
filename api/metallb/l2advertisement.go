package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// L2Advertisement says which nodes announce the addresses of which pools by ARP
// and NDP, and on which interfaces.
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
	// IPAddressPools are the pools by name, together with those that a selector
	// matches. If both are empty: all pools.
	//
	// +optional
	// +listType=set
	IPAddressPools []string `json:"ipAddressPools,omitempty"`

	// IPAddressPoolSelectors match the labels of pools; one has to match.
	//
	// +optional
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`

	// NodeSelectors match the labels of nodes that may announce; one has to match.
	// If empty, all may.
	//
	// +optional
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// Interfaces on which the addresses are answered for; a node that has none of
	// them, or on which they are down, does not announce. If empty: those whose own
	// network has the address or, if there is none, all that lead outside.
	//
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`

	// ServiceSelectors match the labels of Services that are announced; one has to
	// match. If empty, all are.
	//
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`

	// PreferredNodeSelectors say which of the nodes should announce rather than
	// others, as long as they can.
	//
	// +optional
	PreferredNodeSelectors []PreferredNode `json:"preferredNodeSelectors,omitempty"`
}

// PreferredNode adds a weight to the score of the nodes that it matches.
//
// +kubebuilder:pruning:PreserveUnknownFields
type PreferredNode struct {
	// Weight is added up over all entries that match a node; more is better.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Preference matches the labels of nodes; if empty, all.
	Preference metav1.LabelSelector `json:"preference"`
}

// L2AdvertisementStatus says whether the advertisement applies.
//
// +kubebuilder:pruning:PreserveUnknownFields
type L2AdvertisementStatus struct {
	// Conditions; Ready says to which pools the advertisement applies, or why to none.
	// MetalLB's own definition of this kind does not have them.
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
