package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lease is the DHCP lease of a node for one IP family of one Service, or the reason
// why there is none. Services that share an address have one equal entry each. If
// several nodes have an entry for the same Service and family, the one with the
// latest Since is valid; the others are older. If no node has an entry, the Service
// keeps its published address.
type Lease struct {
	// Service that uses the lease, as namespace/name.
	//
	// +kubebuilder:validation:MaxLength=317
	Service string `json:"service"`
	// +kubebuilder:validation:Enum=IPv4;IPv6
	Family string `json:"family"`
	// Address that was leased. If empty, the Service has none.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="must be an IP address"
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address,omitempty"`
	// Until is when the lease expires if it is not renewed. If empty, it never
	// expires.
	//
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Server that assigned the address: its address or, for DHCPv6, its identifier
	// (DUID). If empty, another node had the address before, and no server has
	// confirmed it yet.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Server string `json:"server,omitempty"`
	// Since is when the node took over the lease.
	Since metav1.MicroTime `json:"since"`
	// Message explains why there is no address, or why renewing it failed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// LeaseOf identifies a Lease.
type LeaseOf struct{ Service, Family string }

// LatestLeases returns the valid leases of all agents.
func LatestLeases(agents []Agent) map[LeaseOf]Lease {
	out := map[LeaseOf]Lease{}
	for i := range agents {
		for _, l := range agents[i].Status.Leases {
			of := LeaseOf{l.Service, l.Family}
			if have, ok := out[of]; !ok || have.Since.Before(&l.Since) {
				out[of] = l
			}
		}
	}
	return out
}
