package kubedc

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FIp is a floating IP: it has an EIp for itself, and translates it to one VM or pod.
// Only what says which EIp it has is here.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=fips,singular=fip
// +kubebuilder:subresource:status
type FIp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FIpSpec   `json:"spec,omitempty"`
	Status FIpStatus `json:"status,omitempty"`
}

// FIpSpec names the EIp that the FIp asks for.
//
// +kubebuilder:pruning:PreserveUnknownFields
type FIpSpec struct {
	// EIp of the same namespace.
	//
	// +optional
	EIp string `json:"eip,omitempty"`
}

// FIpStatus names the EIp that the FIp has.
//
// +kubebuilder:pruning:PreserveUnknownFields
type FIpStatus struct {
	// EIp of the same namespace.
	//
	// +optional
	EIp string `json:"eip,omitempty"`
}

// FIpList is a list of FIps.
//
// +kubebuilder:object:root=true
type FIpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FIp `json:"items"`
}
