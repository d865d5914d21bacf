package kubeovn

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "kubeovn.io", Version: "v1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &OvnDnatRule{}, &OvnDnatRuleList{}, &OvnEip{}, &OvnEipList{}, &Subnet{}, &SubnetList{}, &Vpc{}, &VpcList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
