package kubedc

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Project is a tenant's part of the data centre: a namespace and a network. Only what
// leads from a namespace to its network is here.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProjectSpec   `json:"spec,omitempty"`
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectSpec says by which external network the project reaches the outside.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ProjectSpec struct {
	// EgressNetworkType is public or cloud.
	//
	// +optional
	EgressNetworkType string `json:"egressNetworkType,omitempty"`
}

// ProjectStatus names the namespace of the project.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ProjectStatus struct {
	// Namespace of the project.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ProjectList is a list of projects.
//
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}
