package kubevip

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
)

// Ignored says whether kube-vip is told to leave s alone.
func Ignored(s *corev1.Service) bool {
	yes, err := strconv.ParseBool(s.Annotations[AnnotationIgnore])
	return err == nil && yes
}

// Wish returns what somebody asks for on s: the text of the annotation or of
// spec.loadBalancerIP, unless it is what s was given; and where that stands.
func Wish(s *corev1.Service) (text, where string) {
	annotated, given := strings.TrimSpace(s.Annotations[AnnotationAddresses]), s.Annotations[AnnotationGiven]
	first, _, _ := strings.Cut(given, ",")
	switch {
	case annotated != "" && annotated != given:
		return annotated, "Annotation " + AnnotationAddresses
	case s.Spec.LoadBalancerIP != "" && s.Spec.LoadBalancerIP != first:
		return s.Spec.LoadBalancerIP, "spec.loadBalancerIP"
	}
	return "", ""
}

// Held returns the addresses that are written on s, given or asked for. What is
// no address, and what stands for one from a DHCP server, is passed over.
//
// Of a very long list only the beginning counts.
func Held(s *corev1.Service) []netip.Addr {
	const most = 16
	text := s.Annotations[AnnotationAddresses]
	if strings.TrimSpace(text) == "" {
		text = s.Spec.LoadBalancerIP
	}
	var out []netip.Addr
	for _, field := range strings.SplitN(text, ",", most) {
		if a, err := lb.ParseAddr(field); err == nil && !a.IsUnspecified() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Strip returns s without spec.loadBalancerIP, which in this dialect may be what
// s was given, or 0.0.0.0: Amend reads it.
func Strip(s *corev1.Service) *corev1.Service {
	if s.Spec.LoadBalancerIP == "" {
		return s
	}
	stripped := *s
	stripped.Spec.LoadBalancerIP = ""
	return &stripped
}

// leased has the families of which s was given no address, but 0.0.0.0 or :: for
// one from a DHCP server.
func leased(s *corev1.Service) (out [len(lb.Families)]bool) {
	if given := s.Annotations[AnnotationGiven]; given == s.Annotations[AnnotationAddresses] {
		for field := range strings.SplitSeq(given, ",") {
			if a, err := lb.ParseAddr(field); err == nil && a.IsUnspecified() {
				out[lb.FamilyOf(a)] = true
			}
		}
	}
	return out
}

func unusable(a netip.Addr) string {
	if kind := lb.Unusable(netipx.IPRangeFrom(a, a)); kind != lb.LinkLocal {
		return kind
	}
	return ""
}

// ipv4 is the family of addresses that Services share.
var ipv4 = lb.IPv4

// Amend adds to r what s asks for in this dialect, and what the ConfigMap says of
// its namespace.
func (c *Config) Amend(r *lb.Request, s *corev1.Service) {
	if r.ShareKey == "" {
		r.ShareKey, r.ShareOnly = "pool "+c.PoolKey(s.Namespace), &ipv4
		r.Alone = !c.shares(s.Namespace)
	}
	if !r.Reallocate {
		r.DHCP = leased(s)
	}
	text, where := Wish(s)
	if text == "" || len(r.Addresses) > 0 {
		return
	}
	r.Voice, r.Anywhere = lb.KubeVIP, true
	var wrong []string
	for field := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		a, err := lb.ParseAddr(field)
		switch {
		case err != nil:
			wrong = append(wrong, where+": "+err.Error())
		case a.IsUnspecified():
			r.DHCP[lb.FamilyOf(a)] = true
		case unusable(a) != "":
			wrong = append(wrong, fmt.Sprintf("%s: %s is a %s address, at which no Service can be reached", where, a, unusable(a)))
		case slices.Contains(r.Addresses, a):
		default:
			r.Addresses = append(r.Addresses, a)
		}
	}
	if len(wrong) > 0 && r.Invalid == nil {
		reason := lb.InvalidRequest.With(strings.Join(wrong, "; "))
		r.Invalid = &reason
	}
}
