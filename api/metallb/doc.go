// Package metallb has the kinds of MetalLB that Fairlead reads and writes, with
// the fields that it uses. Where MetalLB's own CRDs are installed, they stay; the
// ones made from these types keep fields that they do not know.
//
// +kubebuilder:object:generate=true
// +groupName=metallb.io
// +versionName=v1beta1
package metallb
