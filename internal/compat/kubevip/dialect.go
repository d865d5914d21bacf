package kubevip

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// KindConfigMap is the kind of the one object that is read.
var KindConfigMap = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// Dialect is the format of kube-vip's cloud provider: its ConfigMap, and its
// annotations and kube-vip's.
type Dialect struct{ ConfigMap types.NamespacedName }

var (
	_ compat.Dialect  = Dialect{}
	_ compat.Noter    = Dialect{}
	_ compat.Ignorer  = Dialect{}
	_ compat.Remarker = Dialect{}
	_ compat.Leaver   = Dialect{}
	_ compat.Follower = Dialect{}
	_ compat.Stripper = (*Reading)(nil)
)

// Name is kube-vip.
func (Dialect) Name() lb.Dialect { return Name }

// Kinds is the one ConfigMap.
func (d Dialect) Kinds() []compat.Kind {
	return []compat.Kind{{GroupVersionKind: KindConfigMap, Object: &corev1.ConfigMap{}, List: func() runtime.Object { return &corev1.ConfigMapList{} },
		Namespace: d.ConfigMap.Namespace, Name: d.ConfigMap.Name,
		Without: "there are no pools of kube-vip's ConfigMap " + d.ConfigMap.String() + "; Services with addresses of it keep them"}}
}

// Read parses the ConfigMap.
func (d Dialect) Read(o compat.Objects) compat.Reading {
	out := &Reading{Config: Parse(nil), key: d.ConfigMap, unread: o.Unread[KindConfigMap]}
	for _, object := range o.All[KindConfigMap] {
		if cm, ok := object.(*corev1.ConfigMap); ok && cm.Namespace == d.ConfigMap.Namespace && cm.Name == d.ConfigMap.Name {
			out.Config, out.uid = Parse(cm), cm.UID
		}
	}
	out.pools = slices.Clone(out.Config.Pools)
	if out.uid != "" {
		for i := range out.pools {
			out.pools[i].Object = out.about()
		}
	}
	return out
}

// Words name keys of the ConfigMap.
func (Dialect) Words() lb.Words { return Words }

// Ignores says that kube-vip.io/ignore leaves the Service to others.
func (Dialect) Ignores(s *lb.Service) string {
	if !Ignored(s) {
		return ""
	}
	return "the annotation " + AnnotationIgnore + " leaves it to others"
}

// Notes name the node that announces the first address, on Services that are
// kube-vip's by their pool or by what is written on them.
func (Dialect) Notes(s *lb.Service, v *lb.Verdict, carrier string) map[string]string {
	theirs := Speaks(s) || slices.ContainsFunc(v.Pools, func(p lb.PoolKey) bool { return p.Dialect == Name })
	if len(v.Addresses) == 0 || !theirs || carrier == "" {
		return nil
	}
	return map[string]string{AnnotationHost: carrier}
}

// Without what agents report.
func (Dialect) Without() string {
	return "addresses that DHCP servers give are not published, and annotation " + AnnotationHost + " is not kept up to date"
}

// Moved says whether s names another node than the one that announces it.
func (Dialect) Moved(s *lb.Service, node string) bool {
	return Speaks(s) && s.Annotations[AnnotationHost] != node
}

// Remark tells which requests to DHCP servers are ignored.
func (Dialect) Remark(s *lb.Service, v *lb.Verdict) *lb.Reason {
	if v.DHCP == [len(lb.Families)]bool{} {
		return nil
	}
	_, ignored := DHCPRequestOf(s, v.DHCP)
	return ignored
}

// Speaks says whether s is kube-vip's by what is written on it.
func Speaks(s *lb.Service) bool {
	for key := range s.Annotations {
		if strings.HasPrefix(key, "kube-vip.io/") && key != AnnotationHost {
			return true
		}
	}
	return s.Labels[Label] == LabelValue || strings.Contains(s.Annotations[native.AnnotationAllocatedFrom], string(Name)+"/")
}
