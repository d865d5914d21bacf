package eip

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// Labels and annotations of the objects that are made here. Tenants can write those of
// EIps, which are their own, but not those of OvnEips.
const (
	// LabelService is on an EIp that was made for a Service, and is its UID.
	LabelService = "fairlead.io/service-uid"
	// AnnotationAddress of an EIp is the address that it shall get; of an OvnEip, the one
	// that was asked for.
	AnnotationAddress = "fairlead.io/address"

	// LabelNamespace, LabelName and LabelUID are on an OvnEip and say for which EIp it is.
	// An administrator who sets LabelNamespace on another OvnEip lets EIps of that
	// namespace refer to it.
	LabelNamespace = "fairlead.io/eip-namespace"
	LabelName      = "fairlead.io/eip-name"
	LabelUID       = "fairlead.io/eip-uid"

	// Finalizer keeps an EIp until nobody uses its address and its OvnEip is deleted.
	Finalizer = "fairlead.io/eip"
)

const (
	autoPrefix = "slb-"
	ovnPrefix  = "eip-"
	// maxName is how long a name may be that is also the value of a label.
	maxName = 63
	// hashed is how many characters at the end of a name tell it from others; longer is
	// that of names that had to be cut, which may have everything else in common.
	hashed       = 5
	hashedLonger = 12
)

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// named returns prefix with a hash of the parts behind it, cut so that all of it is a
// valid name.
func named(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	size := hashed
	if len(prefix) > maxName-size-1 {
		size = hashedLonger
		prefix = strings.TrimRight(prefix[:maxName-size-1], "-.")
	}
	return prefix + "-" + letters.EncodeToString(sum[:])[:size]
}

// AutoName is the name of the EIp that is made for a Service. A Service that comes to ask
// for another address or another network gets another EIp, and leaves the first one.
func AutoName(s types.NamespacedName, uid types.UID, w kubedc.Wish) string {
	parts := []string{string(uid)}
	if address := request(w.Addresses); address != "" || w.NetworkType != "" {
		parts = append(parts, address, w.NetworkType)
	}
	return named(autoPrefix+s.Name, parts...)
}

// OvnEipName is the name of the OvnEip of an EIp.
func OvnEipName(e *api.EIp) string { return named(ovnPrefix+e.Namespace+"-"+e.Name, string(e.UID)) }

// looksAutomatic says whether kube-dc would have given that name to the EIp of a Service.
func looksAutomatic(eip, service string) bool {
	suffix, ok := strings.CutPrefix(eip, autoPrefix+service+"-")
	return ok && len(suffix) == hashed && !strings.ContainsAny(suffix, "-.")
}

// request is how kube-ovn is asked for addresses: both families in one field.
func request(addresses []netip.Addr) string {
	var out []string
	for _, f := range lb.Families {
		for _, a := range addresses {
			if lb.FamilyOf(a) == f {
				out = append(out, a.String())
			}
		}
	}
	return strings.Join(out, ",")
}

// parseRequest reads what request wrote, as far as it is one.
func parseRequest(text string) (out []netip.Addr) {
	for field := range strings.SplitSeq(text, ",") {
		if a, err := lb.ParseAddr(field); err == nil && len(out) < len(lb.Families) {
			out = append(out, a)
		}
	}
	return out
}
