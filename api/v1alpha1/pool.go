package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Pool contains addresses for Services of type LoadBalancer and the rules for
// using them.
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

// PoolSpec contains the addresses of the pool and the rules for using them.
type PoolSpec struct {
	// Addresses of the pool, of one or both IP families. Each entry is a CIDR
	// (192.0.2.0/28: all its addresses, including the first and the last), a range
	// (192.0.2.10-192.0.2.20) or a single address.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Addresses []Span `json:"addresses"`

	// Exclude removes addresses from the pool: gateways, hosts, DHCP ranges. Same
	// format as addresses.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Exclude []Span `json:"exclude,omitempty"`

	// Order in which free addresses are assigned: Ascending starts with the lowest,
	// Descending with the highest.
	//
	// +optional
	// +kubebuilder:validation:Enum=Ascending;Descending
	// +kubebuilder:default=Ascending
	Order Order `json:"order,omitempty"`

	// AutoAssign false restricts the pool to Services that request it, or one of
	// its addresses.
	//
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// Priority orders the pools that a Service may use: 1 before 2, and 0 last.
	// Pools of the same priority are ordered by name.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Priority int32 `json:"priority,omitempty"`

	// Namespaces whose Services may use the pool, in addition to those that
	// namespaceSelectors match. If both are empty, all namespaces may use it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelectors match the labels of namespaces whose Services may use
	// the pool; at least one must match. Selectors that match no namespace admit no
	// Service.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// ServiceSelectors match the labels of Services that may use the pool; at least
	// one must match. If empty, all Services may use it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`

	// Sharing defines whether Services with the same annotation fairlead.io/share
	// may share an address of the pool.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allowed;Forbidden
	// +kubebuilder:default=Allowed
	Sharing Sharing `json:"sharing,omitempty"`

	// QuotaPerNamespace limits how many addresses of the pool the Services of one
	// namespace may hold. 0 means no limit. Services that exceed a lowered quota
	// keep their addresses.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	QuotaPerNamespace int32 `json:"quotaPerNamespace,omitempty"`

	// Reservations reserve an address for one Service, which gets it without
	// requesting it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=address
	Reservations []Reservation `json:"reservations,omitempty"`

	// Advertise selects the nodes that announce the pool's addresses on the LAN,
	// and their interfaces. Default: any node, on the interface whose network
	// contains the address.
	//
	// +optional
	Advertise Advertise `json:"advertise,omitempty"`

	// Disabled true drains the pool: it assigns no addresses, and Services keep
	// the ones they have.
	//
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// Advertise selects the nodes and interfaces that announce the addresses of a pool.
type Advertise struct {
	// Interfaces on which the addresses are announced. A node without any of them,
	// or where they are down, does not announce. If empty: the interfaces whose own
	// network contains the address or, if there are none, all external interfaces.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=15
	// +listType=set
	Interfaces []string `json:"interfaces,omitempty"`

	// NodeSelectors match the labels of nodes that may announce; at least one must
	// match. If empty, all nodes may announce.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// PreferredNodes announce instead of other nodes while they are eligible.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	PreferredNodes []PreferredNodes `json:"preferredNodes,omitempty"`

	// Failback true returns addresses to a node that comes back. By default they
	// stay where they are, because a move costs something.
	//
	// +optional
	Failback bool `json:"failback,omitempty"`

	// KeepConnections is how long established connections continue through the node
	// that had an address, after a planned move to another node: 15m, for example.
	// 0s switches this off: a move then breaks established connections. The default
	// is the value of the agents' flag --keep-connections, which is 15m.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	KeepConnections *metav1.Duration `json:"keepConnections,omitempty"`

	// BGP announces the addresses to routers, from every node that nodeSelectors match,
	// instead of on the LAN. If interfaces are given, too, the addresses are also announced
	// on these.
	//
	// +optional
	BGP *BGP `json:"bgp,omitempty"`
}

// BGP is how the addresses of a pool are announced to routers. The routers are BGPPeers of
// MetalLB's kind.
type BGP struct {
	// Peers are the names of the BGPPeers. If empty, all of them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Peers []string `json:"peers,omitempty"`

	// Communities of the routes: 64500:7 (RFC 1997) or large:64500:1:2 (RFC 8092).
	//
	// +optional
	// +kubebuilder:validation:MaxItems=63
	// +kubebuilder:validation:items:MaxLength=40
	// +listType=set
	Communities []string `json:"communities,omitempty"`

	// LocalPref is sent to routers of the nodes' own AS. 0 means 100.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	LocalPref int64 `json:"localPref,omitempty"`

	// AggregationLength is the length of IPv4 prefixes that are announced. A prefix must not be
	// wider than an entry of the pool's addresses.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=32
	AggregationLength *int32 `json:"aggregationLength,omitempty"`

	// AggregationLengthV6 is the same for IPv6.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +kubebuilder:default=128
	AggregationLengthV6 *int32 `json:"aggregationLengthV6,omitempty"`
}

// PreferredNodes are nodes that should announce instead of others.
type PreferredNodes struct {
	// Weight of matching nodes. The weights of all entries that match a node are
	// added up; the highest sum wins.
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

// Order in which free addresses are assigned.
type Order string

const (
	Ascending  Order = "Ascending"
	Descending Order = "Descending"
)

// Sharing defines whether several Services may share an address.
type Sharing string

const (
	SharingAllowed   Sharing = "Allowed"
	SharingForbidden Sharing = "Forbidden"
)

// Reservation reserves an address for one Service.
type Reservation struct {
	// Address to reserve.
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
	// Total number of addresses, as text. If the pool has both IP families: IPv4
	// and IPv6 separately ("256 + 2^64").
	//
	// +optional
	Total string `json:"total,omitempty"`
	// Used is the number of addresses that Services hold, in the same format.
	//
	// +optional
	Used string `json:"used,omitempty"`
	// Free is the number of free addresses, in the same format. It excludes reserved
	// addresses and addresses of nodes.
	//
	// +optional
	Free string `json:"free,omitempty"`

	// Families contains the same numbers for programs, by IP family.
	//
	// +optional
	// +listType=map
	// +listMapKey=family
	Families []FamilyUsage `json:"families,omitempty"`

	// Conditions of the pool. Ready: the pool assigns addresses, or the reason why not.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FamilyUsage counts a pool's addresses of one IP family. Larger numbers are
// capped at 9223372036854775807.
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
