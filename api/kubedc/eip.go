package kubedc

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EIp is an external address of a project. Services of the namespace share it if
// their ports differ.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eips,singular=eip
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.ipAddress`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ownership",type=string,JSONPath=`.status.ownershipType`
type EIp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EIpSpec   `json:"spec,omitempty"`
	Status EIpStatus `json:"status,omitempty,omitzero"`
}

// EIpSpec says where the address is from. It does not change.
//
// +kubebuilder:validation:XValidation:rule="!has(self.externalNetworkType) || size(self.externalNetworkType) == 0 || !has(self.childRef) || size(self.childRef) == 0",message="externalNetworkType and childRef cannot be set at the same time"
type EIpSpec struct {
	// ExternalNetworkType is the type of the external network: public or cloud.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="externalNetworkType is immutable"
	ExternalNetworkType string `json:"externalNetworkType,omitempty"`

	// ChildRef is the name of an OvnEip that exists, such as the project's gateway.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="childRef is immutable"
	ChildRef string `json:"childRef,omitempty"`
}

// Ownership says how many use an EIp.
type Ownership string

// What it can be.
const (
	Released  Ownership = "Released"  // nobody
	Exclusive Ownership = "Exclusive" // one
	Shared    Ownership = "Shared"    // several
)

// EIpStatus has the address, and who uses it. The API server requires the three
// fields without omitempty.
type EIpStatus struct {
	// IPAddress is the allocated address: IPv4, or IPv6 where there is no other.
	//
	// +optional
	IPAddress string `json:"ipAddress,omitempty"`

	// OvnEIpRef is the name of the OvnEip that has the address; "" if there is none.
	OvnEIpRef string `json:"ovnEIpRef"`

	// OwnershipType is Released, Exclusive or Shared.
	//
	// +kubebuilder:default=Released
	OwnershipType Ownership `json:"ownershipType"`

	// Ready says whether the address can be used.
	//
	// +kubebuilder:default=false
	Ready bool `json:"ready"`

	// Owners are who uses the address.
	//
	// +optional
	Owners []Owner `json:"owners,omitempty"`

	// DeleteReleased says that the EIp is deleted when nobody uses it.
	//
	// +optional
	DeleteReleased bool `json:"deleteReleased,omitempty"`

	// Conditions of the EIp.
	//
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Owner is one who uses an EIp.
type Owner struct {
	// Type of the owner, such as Service.
	//
	// +optional
	Type string `json:"type,omitempty"`

	// OwnerRef names it.
	//
	// +optional
	OwnerRef string `json:"ownerRef,omitempty"`
}

// EIpList is a list of EIps.
//
// +kubebuilder:object:root=true
type EIpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EIp `json:"items"`
}
