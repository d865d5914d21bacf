package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IPAddressPool contains addresses for Services of type LoadBalancer and the rules
// for using them.
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

// IPAddressPoolSpec contains the addresses of the pool and the rules for using them.
//
// +kubebuilder:pruning:PreserveUnknownFields
type IPAddressPoolSpec struct {
	// Addresses of the pool, of one or both IP families. Each entry is a CIDR
	// (192.0.2.0/28: all its addresses, including the first and the last) or a range
	// (192.0.2.10-192.0.2.20). Entries must not overlap, within a pool or between pools.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2048
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.contains('-') ? isIP(self.substring(0, self.indexOf('-')).trim()) && isIP(self.substring(self.indexOf('-') + 1).trim()) : isCIDR(self)",message="must be a CIDR without blanks around it (192.0.2.0/24; a single address is 192.0.2.1/32) or a range (192.0.2.1-192.0.2.9)"
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('-') || !isIP(self.substring(0, self.indexOf('-')).trim()) || !isIP(self.substring(self.indexOf('-') + 1).trim()) || ip(self.substring(0, self.indexOf('-')).trim()).family() == ip(self.substring(self.indexOf('-') + 1).trim()).family()",message="both ends of a range must be of one IP family"
	Addresses []string `json:"addresses"`

	// AutoAssign false restricts the pool to Services that request it, or one of
	// its addresses.
	//
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// AvoidBuggyIPs excludes IPv4 addresses that end in .0 or .255.
	//
	// +optional
	// +kubebuilder:default=false
	AvoidBuggyIPs bool `json:"avoidBuggyIPs,omitempty"`

	// AllocateTo, in YAML serviceAllocation, reserves the pool for certain Services.
	// These use it before pools that are open to all Services.
	//
	// +optional
	AllocateTo *ServiceAllocation `json:"serviceAllocation,omitempty"`
}

// ServiceAllocation selects the Services that may use a pool.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ServiceAllocation struct {
	// Priority orders the pools that a Service may use: 1 before 2, and 0 last.
	// Pools of the same priority are ordered by name.
	//
	// +optional
	Priority int `json:"priority,omitempty"`

	// Namespaces whose Services may use the pool, in addition to those that
	// namespaceSelectors match. If both are empty, all namespaces may use it.
	//
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelectors match the labels of namespaces whose Services may use the
	// pool; at least one must match. Selectors that match no namespace admit no
	// Service.
	//
	// +optional
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// ServiceSelectors match the labels of Services that may use the pool; at least
	// one must match. If empty, all Services may use it.
	//
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
}

// IPAddressPoolStatus shows how much of a pool is used.
//
// +kubebuilder:pruning:PreserveUnknownFields
type IPAddressPoolStatus struct {
	// AssignedIPv4 is the number of IPv4 addresses that Services have. A shared
	// address counts once.
	AssignedIPv4 int64 `json:"assignedIPv4"`
	// AssignedIPv6 is the number of IPv6 addresses that Services have.
	AssignedIPv6 int64 `json:"assignedIPv6"`
	// AvailableIPv4 is the number of IPv4 addresses that are left.
	AvailableIPv4 int64 `json:"availableIPv4"`
	// AvailableIPv6 is the number of IPv6 addresses that are left, at most
	// 9223372036854775807.
	AvailableIPv6 int64 `json:"availableIPv6"`

	// Conditions of the pool. Ready: the pool assigns addresses, or the reason why not.
	// MetalLB's own CRD does not have this field.
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
