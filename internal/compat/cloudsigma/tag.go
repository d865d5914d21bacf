package cloudsigma

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Names of tags on addresses. That of the cluster alone says whose an address is:
// Services of several clusters can have one tag, and so can shop-web/x and
// shop/web-x.
const (
	clusterPrefix = "cluster:"
	servicePrefix = "service:"
	// ManagedTag is on all addresses that Services of any cluster have.
	ManagedTag = "managed-by:cloudsigma-ccm"
)

// ClusterTag is the tag of a cluster's addresses.
func ClusterTag(cluster string) string { return clusterPrefix + cluster }

// ServiceTag is the tag of a Service's addresses.
func ServiceTag(s types.NamespacedName) string { return servicePrefix + s.Namespace + "-" + s.Name }

// ClusterOf is the cluster that a tag names.
func ClusterOf(tag string) (cluster string, ok bool) { return strings.CutPrefix(tag, clusterPrefix) }

// ServicesOf are all Services that may have a tag, by length of the namespace.
func ServicesOf(tag string) (out []types.NamespacedName) {
	text, ok := strings.CutPrefix(tag, servicePrefix)
	for i := 0; ok && i < len(text); i++ {
		if text[i] == '-' && i > 0 && i+1 < len(text) {
			out = append(out, types.NamespacedName{Namespace: text[:i], Name: text[i+1:]})
		}
	}
	return out
}

// IsServiceTag says whether a tag names a Service.
func IsServiceTag(tag string) bool { return strings.HasPrefix(tag, servicePrefix) }
