package kubeovn

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Subnet is a logical switch: of pods, or an external network.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=subnet
// +kubebuilder:subresource:status
type Subnet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SubnetSpec   `json:"spec"`
	Status SubnetStatus `json:"status,omitempty"`
}

// SubnetSpec says what the network is.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SubnetSpec struct {
	// Vpc that the subnet belongs to.
	//
	// +optional
	Vpc string `json:"vpc,omitempty"`

	// Provider is "ovn", or ends so, if kube-ovn makes the network.
	//
	// +optional
	Provider string `json:"provider,omitempty"`

	// Vlan of an underlay network; "" is an overlay.
	//
	// +optional
	Vlan string `json:"vlan,omitempty"`

	// Protocol is IPv4, IPv6 or Dual.
	//
	// +optional
	Protocol string `json:"protocol,omitempty"`

	// CIDRBlock of the network; both families are separated by a comma.
	//
	// +optional
	CIDRBlock string `json:"cidrBlock,omitempty"`

	// Gateway of the network; both families are separated by a comma.
	//
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// ExcludeIPs are addresses and ranges (a..b) that are not handed out.
	//
	// +optional
	ExcludeIPs []string `json:"excludeIps,omitempty"`
}

// SubnetStatus counts addresses.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SubnetStatus struct {
	// V4Available is how many IPv4 addresses are free.
	//
	// +optional
	V4Available Count `json:"v4availableIPs,omitempty"`

	// V6Available is how many IPv6 addresses are free.
	//
	// +optional
	V6Available Count `json:"v6availableIPs,omitempty"`
}

// Count is a number of addresses, which may be too large for an integer. kube-ovn's
// versions write it differently, so it takes what it gets.
//
// +kubebuilder:validation:Type=number
type Count string

// UnmarshalJSON reads a number, or the text of one. It never fails.
func (c *Count) UnmarshalJSON(data []byte) error {
	*c = Count(strings.Trim(string(data), `"`))
	if *c == "null" {
		*c = ""
	}
	return nil
}

// MarshalJSON writes the number. What is none becomes 0.
func (c Count) MarshalJSON() ([]byte, error) {
	var n json.Number
	if json.Unmarshal([]byte(c), &n) != nil || n == "" {
		n = "0"
	}
	return []byte(n), nil
}

// SubnetList is a list of subnets.
//
// +kubebuilder:object:root=true
type SubnetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Subnet `json:"items"`
}
