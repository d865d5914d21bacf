package kubeovn

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OvnDnatRule leads one port of an OvnEip to a pod. kube-ovn makes a load balancer of it,
// with its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ovn-dnat-rules,singular=ovn-dnat-rule,scope=Cluster,shortName=odnat
// +kubebuilder:subresource:status
type OvnDnatRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OvnDnatRuleSpec `json:"spec"`
}

// OvnDnatRuleSpec says which port is led elsewhere.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OvnDnatRuleSpec struct {
	// OvnEip whose address it is.
	//
	// +optional
	OvnEip string `json:"ovnEip,omitempty"`

	// Protocol is tcp or udp.
	//
	// +optional
	Protocol string `json:"protocol,omitempty"`

	// ExternalPort is the port of the OvnEip.
	//
	// +optional
	ExternalPort string `json:"externalPort,omitempty"`
}

// OvnDnatRuleList is a list of OvnDnatRules.
//
// +kubebuilder:object:root=true
type OvnDnatRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OvnDnatRule `json:"items"`
}
