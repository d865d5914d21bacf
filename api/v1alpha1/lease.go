package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lease is what a node has from a DHCP server, or why it has nothing, for one
// family of one Service. Services that share the address have one each, all
// alike. Of several nodes that say something about the same, the one with the
// latest Since counts; the others had it before. If no node says anything, the
// address that the Service publishes stays its own.
type Lease struct {
	// Service that has it, as namespace/name.
	//
	// +kubebuilder:validation:MaxLength=317
	Service string `json:"service"`
	// +kubebuilder:validation:Enum=IPv4;IPv6
	Family string `json:"family"`
	// Address that was leased; without it, the Service has none.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="must be an IP address"
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address,omitempty"`
	// Until when the address may be used without being renewed; without it, for
	// ever.
	//
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Server that gave it: its address or, of an IPv6 server, its identifier (DUID).
	// Without it the address is one that another node had, and no server has
	// confirmed it yet.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Server string `json:"server,omitempty"`
	// Since when the node looks after it.
	Since metav1.MicroTime `json:"since"`
	// Message says why there is no address, or why it could not be renewed yet.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// LeaseOf names what a Lease is about.
type LeaseOf struct{ Service, Family string }

// LatestLeases returns what counts of all that agents say.
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
