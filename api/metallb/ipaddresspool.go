package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IPAddressPool is a set of addresses for Services of type LoadBalancer, and the
// rules for who may have them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Auto Assign",type=boolean,JSONPath=`.spec.autoAssign`
// +kubebuilder:printcolumn:name="Avoid Buggy IPs",type=boolean,JSONPath=`.spec.avoidBuggyIPs`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
type IPAddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   IPAddressPoolSpec   `json:"spec"`
	Status IPAddressPoolStatus `json:"status,omitempty"`
}

// IPAddressPoolSpec says which addresses the pool has and who may have them.
//
// +kubebuilder:pruning:PreserveUnknownFields
type IPAddressPoolSpec struct {
	// Addresses of the pool, of one or both IP families: CIDRs, and ranges of two
	// addresses with a hyphen between them.
	//
	// +kubebuilder:validation:MinItems=1
	Addresses []string `json:"addresses"`

	// AutoAssign false keeps the pool for Services that ask for it, or for one of
	// its addresses.
	//
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// AvoidBuggyIPs leaves out IPv4 addresses that end in .0 or .255.
	//
	// +optional
	// +kubebuilder:default=false
	AvoidBuggyIPs bool `json:"avoidBuggyIPs,omitempty"`

	// AllocateTo sets the pool aside for certain Services.
	//
	// +optional
	AllocateTo *ServiceAllocation `json:"serviceAllocation,omitempty"`
}

// ServiceAllocation says for which Services a pool is.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ServiceAllocation struct {
	// Priority: lower first, 0 after all others.
	Priority int `json:"priority,omitempty"`

	// Namespaces of the Services, besides those that NamespaceSelectors match.
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelectors of which any may match the Service's namespace.
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// ServiceSelectors of which one must match the Service, if there are any.
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
}

// IPAddressPoolStatus says how much of a pool is used.
//
// +kubebuilder:pruning:PreserveUnknownFields
type IPAddressPoolStatus struct {
	AssignedIPv4  int64 `json:"assignedIPv4"`
	AssignedIPv6  int64 `json:"assignedIPv6"`
	AvailableIPv4 int64 `json:"availableIPv4"`
	AvailableIPv6 int64 `json:"availableIPv6"`

	// Conditions are not in MetalLB's own CRD.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IPAddressPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type IPAddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPAddressPool `json:"items"`
}
