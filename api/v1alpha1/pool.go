package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Pool is a set of addresses for Services of type LoadBalancer, and the rules
// for who may have them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=fairlead
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
// +kubebuilder:printcolumn:name="Total",type=string,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.free`
// +kubebuilder:printcolumn:name="Auto",type=boolean,JSONPath=`.spec.autoAssign`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Pool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   PoolSpec   `json:"spec"`
	Status PoolStatus `json:"status,omitempty"`
}

// PoolSpec says which addresses the pool has and who may have them.
type PoolSpec struct {
	// Addresses of the pool, of one or both IP families. Each entry is a CIDR
	// (192.0.2.0/28: every address of it, the first and last included), a range
	// (192.0.2.10-192.0.2.20) or a single address.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Addresses []Span `json:"addresses"`

	// Exclude takes addresses out of the pool: gateways, hosts, what DHCP hands
	// out. Written as in addresses.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Exclude []Span `json:"exclude,omitempty"`

	// Order in which free addresses are handed out: Ascending takes the lowest,
	// Descending the highest.
	//
	// +optional
	// +kubebuilder:validation:Enum=Ascending;Descending
	// +kubebuilder:default=Ascending
	Order Order `json:"order,omitempty"`

	// AutoAssign false keeps the pool for Services that ask for it, or for one
	// of its addresses.
	//
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// Priority orders the pools that a Service may use: 1 before 2, and 0 after
	// all others. Pools of the same priority are used in the order of their names.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Priority int32 `json:"priority,omitempty"`

	// Namespaces whose Services may use the pool, together with those that a
	// namespaceSelector matches. If both are empty, all may.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelectors match the labels of namespaces whose Services may use
	// the pool; one has to match. A selector that matches no namespace opens the
	// pool to nobody.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// ServiceSelectors match the labels of Services that may use the pool; one
	// has to match. If empty, all may.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`

	// Sharing says whether Services with the same annotation fairlead.io/share
	// may live on one address of the pool.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allowed;Forbidden
	// +kubebuilder:default=Allowed
	Sharing Sharing `json:"sharing,omitempty"`

	// QuotaPerNamespace limits how many addresses of the pool the Services of
	// one namespace may hold. 0 is no limit. A lower quota takes nothing away
	// from those who hold more.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	QuotaPerNamespace int32 `json:"quotaPerNamespace,omitempty"`

	// Reservations keep an address for one Service, which gets it without asking.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=address
	Reservations []Reservation `json:"reservations,omitempty"`

	// Advertise says which nodes announce the pool's addresses on the LAN, and on
	// which interfaces. Without it: any node, on the interface whose network has
	// the address.
	//
	// +optional
	Advertise Advertise `json:"advertise,omitempty"`

	// Disabled true drains the pool: nothing new is handed out, what is held
	// stays.
	//
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// Advertise says who announces the addresses of a pool, and where.
type Advertise struct {
	// Interfaces on which the addresses are answered for; a node that has none of
	// them, or on which they are down, does not announce. If empty: those whose
	// own network has the address or, if there is none, all that lead outside.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=15
	// +listType=set
	Interfaces []string `json:"interfaces,omitempty"`

	// NodeSelectors match the labels of nodes that may announce; one has to
	// match. If empty, all may.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// PreferredNodes announce rather than others, as long as they can.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	PreferredNodes []PreferredNodes `json:"preferredNodes,omitempty"`

	// Failback lets a node that comes back have its addresses again. By default
	// they stay where they are: every move breaks established connections.
	//
	// +optional
	Failback bool `json:"failback,omitempty"`
}

// PreferredNodes are nodes that should announce rather than others.
type PreferredNodes struct {
	// Weight is added up over all entries that match a node; more is better.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Selector matches the labels of nodes.
	Selector metav1.LabelSelector `json:"selector"`
}

// Span is a CIDR, a range or a single address.
//
// +kubebuilder:validation:MaxLength=80
// +kubebuilder:validation:XValidation:rule="isCIDR(self) || isIP(self) || (self.split('-').size() == 2 && self.split('-').all(e, isIP(e.trim())))",message="must be a CIDR (192.0.2.0/24), a range (192.0.2.1-192.0.2.9) or an address"
// +kubebuilder:validation:XValidation:rule="!(self.split('-').size() == 2 && self.split('-').all(e, isIP(e.trim()))) || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()",message="both ends of a range must be of one IP family"
type Span string

// Order in which free addresses are handed out.
type Order string

const (
	Ascending  Order = "Ascending"
	Descending Order = "Descending"
)

// Sharing says whether an address may serve several Services.
type Sharing string

const (
	SharingAllowed   Sharing = "Allowed"
	SharingForbidden Sharing = "Forbidden"
)

// Reservation keeps an address for one Service.
type Reservation struct {
	// Address that is reserved.
	//
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	Address string `json:"address"`

	// Namespace of the Service.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the Service.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// PoolStatus is written by the controller, at most once a second.
type PoolStatus struct {
	// Total, Used and Free are for people: numbers of addresses, IPv4 and IPv6
	// apart ("256 + 2^64") where the pool has both. Free leaves out what is
	// reserved or belongs to a node.
	//
	// +optional
	Total string `json:"total,omitempty"`
	// +optional
	Used string `json:"used,omitempty"`
	// +optional
	Free string `json:"free,omitempty"`

	// Families has the same numbers for programs.
	//
	// +optional
	// +listType=map
	// +listMapKey=family
	Families []FamilyUsage `json:"families,omitempty"`

	// Conditions; Ready says whether the pool hands out addresses, and why not.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FamilyUsage counts a pool's addresses of one IP family. Numbers that do not
// fit are given as 9223372036854775807.
type FamilyUsage struct {
	// +kubebuilder:validation:Enum=IPv4;IPv6
	Family string `json:"family"`
	Total  int64  `json:"total"`
	Used   int64  `json:"used"`
	Free   int64  `json:"free"`
}

// PoolList is a list of pools.
//
// +kubebuilder:object:root=true
type PoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pool `json:"items"`
}
