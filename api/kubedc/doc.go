// Package kubedc has the kinds of kube-dc that Fairlead reads and writes, with the
// fields that it uses. Fairlead never installs their CRDs: kube-dc's own stay.
//
// +kubebuilder:object:generate=true
// +groupName=kube-dc.com
// +versionName=v1
package kubedc
