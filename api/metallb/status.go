package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels of ServiceL2Status and ConfigurationState.
const (
	LabelNode             = "metallb.io/node"
	LabelServiceName      = "metallb.io/service-name"
	LabelServiceNamespace = "metallb.io/service-namespace"
	LabelComponentType    = "metallb.io/component-type"
	LabelNodeName         = "metallb.io/node-name"
)

// ServiceL2Status shows which node announces a Service. The agent of that node writes
// it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Allocated Node",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Service Name",type=string,JSONPath=`.status.serviceName`
// +kubebuilder:printcolumn:name="Service Namespace",type=string,JSONPath=`.status.serviceNamespace`
type ServiceL2Status struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ServiceL2StatusSpec `json:"spec,omitempty"`
	Status L2Status            `json:"status,omitempty"`
}

// ServiceL2StatusSpec is empty.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ServiceL2StatusSpec struct{}

// L2Status shows the node and interfaces that announce a Service.
//
// +kubebuilder:pruning:PreserveUnknownFields
type L2Status struct {
	// Node that announces the Service.
	Node string `json:"node,omitempty"`
	// ServiceName is the name of the Service.
	ServiceName string `json:"serviceName,omitempty"`
	// ServiceNamespace is the namespace of the Service.
	ServiceNamespace string `json:"serviceNamespace,omitempty"`
	// Interfaces on which the Service is announced. If empty: all.
	Interfaces []InterfaceInfo `json:"interfaces,omitempty"`
}

// InterfaceInfo names an interface.
//
// +kubebuilder:pruning:PreserveUnknownFields
type InterfaceInfo struct {
	// Name of the interface.
	Name string `json:"name,omitempty"`
}

// ServiceL2StatusList is a list of these.
//
// +kubebuilder:object:root=true
type ServiceL2StatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceL2Status `json:"items"`
}

// Result of reading the configuration.
type Result string

// Results.
const (
	Valid   Result = "Valid"
	Invalid Result = "Invalid"
	Unknown Result = "Unknown"
)

// ConfigurationState shows whether a process could use the whole configuration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="ErrorSummary",type=string,JSONPath=`.status.errorSummary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConfigurationState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status ConfigurationStateStatus `json:"status,omitempty"`
}

// ConfigurationStateStatus is the result of reading the configuration.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ConfigurationStateStatus struct {
	// Result is Valid, Invalid or Unknown.
	Result Result `json:"result,omitempty"`
	// ErrorSummary lists the errors and the objects that have them.
	ErrorSummary string `json:"errorSummary,omitempty"`
	// Conditions of the processes that read the configuration.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigurationStateList is a list of these.
//
// +kubebuilder:object:root=true
type ConfigurationStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ConfigurationState `json:"items"`
}
