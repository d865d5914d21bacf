package kubedc

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Wish is what a Service asks for.
type Wish struct {
	// EIp of the namespace that it names; "" is one of its own.
	EIp string
	// NetworkType is the type of the external network; "" is the project's.
	NetworkType string
	// Addresses that it asks for, at most one of a family; none is any.
	Addresses []netip.Addr
	// Ports that it needs at its address.
	Ports []lb.Port
}

// Read returns what s asks for in kube-dc's annotations, with the addresses that it
// asks for in any. Everything that cannot be understood is a sentence in problems.
func Read(s *lb.Service, addresses []netip.Addr) (w Wish, problems []string) {
	r := reader{annotations: s.Annotations}
	w = Wish{EIp: r.eip(), NetworkType: r.networkType(), Ports: s.PortList(), Addresses: addresses}
	if len(addresses) > 0 {
		r.oneOfEach(addresses)
	}
	return w, r.problems
}

// reader reads annotations and notes what it cannot understand.
type reader struct {
	annotations map[string]string
	problems    []string
}

func (r *reader) add(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// eip is the EIp that the annotations name. If both do, they must mean the same one.
func (r *reader) eip() string {
	named, gateway := r.name(), false
	if value, ok := r.annotations[AnnotationDefaultGateway]; ok {
		var err error
		if gateway, err = strconv.ParseBool(strings.TrimSpace(value)); err != nil {
			r.add("Annotation %s: %s is neither true nor false", AnnotationDefaultGateway, prose.Quote(value))
		}
	}
	switch {
	case !gateway:
		return named
	case named != "" && named != DefaultGateway:
		r.add("Annotation %s requests EIp %q, and annotation %s requests EIp %q; remove one of them", AnnotationDefaultGateway, DefaultGateway, AnnotationEIp, named)
	}
	return DefaultGateway
}

func (r *reader) name() string {
	value, ok := r.annotations[AnnotationEIp]
	name := strings.TrimSpace(value)
	switch {
	case !ok:
		return ""
	case name == "":
		r.add("Annotation %s is empty", AnnotationEIp)
		return ""
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		r.add("Annotation %s: %s cannot be the name of an EIp", AnnotationEIp, prose.Quote(value))
		return ""
	}
	return name
}

// networkType is the type of network that the annotations ask for. The newer of the two
// counts.
func (r *reader) networkType() string {
	for _, key := range []string{AnnotationNetworkType, AnnotationOldNetworkType} {
		value, ok := r.annotations[key]
		if !ok {
			continue
		}
		kind := strings.ToLower(strings.TrimSpace(value))
		if !slices.Contains(networkTypes, kind) {
			r.add("Annotation %s: %s is not a network type; available: %s", key, prose.Quote(value), prose.And(networkTypes))
			return ""
		}
		return kind
	}
	return ""
}

// oneOfEach notes several addresses of one family: an EIp has one of each.
func (r *reader) oneOfEach(addresses []netip.Addr) {
	for _, f := range lb.Families {
		of := slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return lb.FamilyOf(a) != f })
		if len(of) > 1 {
			r.add("The Service requests several %s addresses (%s); here it can have one", f, prose.Addrs(of))
		}
	}
}

// maxKeys is how many annotations without effect are told of.
const maxKeys = 8

// Remarks are about annotations of s that look like kube-dc's, and have no effect.
func Remarks(s *lb.Service) (out []lb.Reason) {
	var ignored, unknown []string
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		switch {
		case !strings.HasPrefix(key, prefix) || slices.Contains([]string{AnnotationDefaultGateway, AnnotationEIp, AnnotationOldNetworkType}, key):
		case Unserved(key):
			ignored = append(ignored, key)
		case len(unknown) < maxKeys:
			unknown = append(unknown, key)
		}
	}
	if len(ignored) > 0 {
		out = append(out, Reasons.With(AnnotationIgnored, prose.And(ignored)))
	}
	for _, key := range unknown {
		out = append(out, lb.UnknownAnnotation.With(key))
	}
	return out
}
