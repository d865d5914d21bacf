// Package kubeovn has the kinds of kube-ovn that Fairlead reads and writes, with the
// fields that it uses. Fairlead never installs their CRDs: kube-ovn's own stay. Objects
// have more fields than these types know, so write them by patches only.
//
// +kubebuilder:object:generate=true
// +groupName=kubeovn.io
// +versionName=v1
package kubeovn
