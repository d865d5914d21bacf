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
	// Addresses of the pool, of one or both IP families. Each entry is a CIDR
	// (192.0.2.0/28: every address of it, the first and last included) or a range
	// (192.0.2.10-192.0.2.20). No two may overlap, not even of two pools.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2048
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.contains('-') ? isIP(self.substring(0, self.indexOf('-')).trim()) && isIP(self.substring(self.indexOf('-') + 1).trim()) : isCIDR(self)",message="must be a CIDR without blanks around it (192.0.2.0/24; a single address is 192.0.2.1/32) or a range (192.0.2.1-192.0.2.9)"
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('-') || !isIP(self.substring(0, self.indexOf('-')).trim()) || !isIP(self.substring(self.indexOf('-') + 1).trim()) || ip(self.substring(0, self.indexOf('-')).trim()).family() == ip(self.substring(self.indexOf('-') + 1).trim()).family()",message="both ends of a range must be of one IP family"
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

	// AllocateTo, in YAML serviceAllocation, sets the pool aside for certain Services:
	// those that it is for use it before the pools that are for all.
	//
	// +optional
	AllocateTo *ServiceAllocation `json:"serviceAllocation,omitempty"`
}

// ServiceAllocation says for which Services a pool is.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ServiceAllocation struct {
	// Priority orders the pools that a Service may use: 1 before 2, and 0 after all
	// others. Pools of the same priority are used in the order of their names.
	//
	// +optional
	Priority int `json:"priority,omitempty"`

	// Namespaces whose Services may use the pool, together with those that a
	// namespaceSelector matches. If both are empty, all may.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelectors match the labels of namespaces whose Services may use the
	// pool; one has to match. A selector that matches no namespace opens the pool to
	// nobody.
	//
	// +optional
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// ServiceSelectors match the labels of Services that may use the pool; one has
	// to match. If empty, all may.
	//
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
}

// IPAddressPoolStatus says how much of a pool is used.
//
// +kubebuilder:pruning:PreserveUnknownFields
type IPAddressPoolStatus struct {
	// AssignedIPv4 is how many IPv4 addresses Services have; one that several share
	// counts once.
	AssignedIPv4 int64 `json:"assignedIPv4"`
	// AssignedIPv6 is how many IPv6 addresses Services have.
	AssignedIPv6 int64 `json:"assignedIPv6"`
	// AvailableIPv4 is how many IPv4 addresses are left.
	AvailableIPv4 int64 `json:"availableIPv4"`
	// AvailableIPv6 is how many IPv6 addresses are left, or 9223372036854775807 if
	// the number does not fit.
	AvailableIPv6 int64 `json:"availableIPv6"`

	// Conditions; Ready says whether the pool hands out addresses, and why not.
	// MetalLB's own definition of this kind does not have them.
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
