// Package v1alpha1 has Fairlead's own kinds: Pool, the addresses that Services
// may have, and Agent, what one node announces.
//
// +kubebuilder:object:generate=true
// +groupName=fairlead.io
package v1alpha1
