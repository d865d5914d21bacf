// Package setup registers the dialects and backends that need nothing but the cluster.
// The binary and the tests share this wiring; clouds are wired where their credentials
// are read.
package setup

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/backend/announce"
	kubevipbackend "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	metallbstatus "fairlead.io/internal/controller/metallb"
	"fairlead.io/internal/notary"
)

// Names of what others have made.
type Names struct {
	// MetalLBNamespace is where objects of MetalLB's kinds count.
	MetalLBNamespace string
	// KubeVIPMap is the ConfigMap of kube-vip's cloud provider; empty is the usual one.
	KubeVIPMap config.KubeVIPMap
	// Pod of the controller, if it is in MetalLB's namespace.
	Pod *metav1.OwnerReference
}

// Add adds to o, which has its configuration, what serves it.
func Add(o *controller.Options, n Names) {
	if n.KubeVIPMap == (config.KubeVIPMap{}) {
		n.KubeVIPMap = config.KubeVIPMapFrom(func(string) string { return "" })
	}
	theirs := kubevip.Dialect{ConfigMap: types.NamespacedName(n.KubeVIPMap)}
	ours := []compat.Dialect{native.Dialect{}, metallb.Dialect{Namespace: n.MetalLBNamespace}, theirs}
	o.Dialects = append(slices.Clone(ours), o.Dialects...)
	o.Schemes = append(o.Schemes, metallbapi.AddToScheme)
	provides := kubevipbackend.Backend{Notary: &notary.Notary{}}
	announces := &announce.Backend{Dialects: ours}
	served := o.Config.Backends()
	if o.Config.Uses(theirs.Name()) {
		announces.Noted = provides
	}
	if o.Config.Uses(theirs.Name()) && !slices.Contains(served, config.KubeVIP) {
		announces.Leavers = []compat.Leaver{theirs}
	}
	if o.Backends == nil {
		o.Backends = map[config.Backend]controller.Backend{}
	}
	o.Backends[config.Announce] = controller.Backend{Backend: announces}
	o.Backends[config.KubeVIP] = controller.Backend{Backend: provides}
	o.GossipKey = slices.Contains(served, config.Announce)
	if o.Config.Uses(metallb.Dialect{}.Name()) {
		o.Reporters = append(o.Reporters, func(t controller.Tools) controller.Reporter {
			return metallbstatus.NewReporter(t, n.MetalLBNamespace, n.Pod)
		})
	}
}
