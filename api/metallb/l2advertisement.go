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
	// IPAddressPools by name; without any, and without a selector, all pools.
	IPAddressPools []string `json:"ipAddressPools,omitempty"`
	// IPAddressPoolSelectors add the pools that any of them matches.
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`
	// NodeSelectors, any of which must match a node; without any, all nodes.
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	// Interfaces by name; without any, all.
	Interfaces []string `json:"interfaces,omitempty"`
	// ServiceSelectors, any of which must match a Service; without any, all.
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
	// PreferredNodeSelectors say which of the nodes come first.
	PreferredNodeSelectors []PreferredNode `json:"preferredNodeSelectors,omitempty"`
}

// PreferredNode adds a weight to the score of the nodes that it matches.
type PreferredNode struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight     int32                `json:"weight"`
	Preference metav1.LabelSelector `json:"preference"`
}

// L2AdvertisementStatus has nothing in MetalLB.
//
// +kubebuilder:pruning:PreserveUnknownFields
type L2AdvertisementStatus struct {
	// Conditions are not in MetalLB's own CRD.
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
