package kubevip

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/lb"
)

// What is written on a Service, and by whom.
//
// The annotation AnnotationAddresses and spec.loadBalancerIP have what somebody
// asks for, or what the Service was given: it is one place for both. So Fairlead
// notes what it did: in AnnotationGiven the text that it wrote into the
// annotation, in AnnotationAsked the text of a request that it has granted.
//
//	asked  given   the annotation is   spec.loadBalancerIP is
//	-      as it   a gift              its first address
//	as it  -       a request, granted  whatever it was
//	text   as it   a copy, and more    a request, granted
//
// A Service that loses what it had, because it asks for something else that it
// cannot have, is given what is left of it, or Nothing.
//
// Everything else is a request that is yet to be granted. kube-vip's cloud provider
// leaves no notes, but what it gave it writes into both places and sets Label. Of
// what is asked for in the spec it makes a copy and sets no Label; of what is asked
// for in the annotation it makes none.

// Nothing is what AnnotationGiven says of a Service that had something and has it
// no more.
const Nothing = "nothing"

// Ignored says whether kube-vip is told to leave s alone.
func Ignored(s *lb.Service) bool {
	yes, err := strconv.ParseBool(s.Annotations[AnnotationIgnore])
	return err == nil && yes
}

// Given is what s was given without having asked for it in the annotation, as it
// was written there by us or by kube-vip's cloud provider; "" if nothing was.
func Given(s *lb.Service) string {
	if Noted(s) {
		return strings.TrimPrefix(s.Annotations[AnnotationGiven], Nothing)
	}
	text := annotated(s)
	if s.Labels[Label] == LabelValue && text != "" && s.LoadBalancerIP == First(text) {
		return text
	}
	return ""
}

// Requested returns what somebody asks for on s, granted or not: the text of the
// annotation or, if inSpec, that of spec.loadBalancerIP.
func Requested(s *lb.Service) (text string, inSpec bool) {
	given, spec := Given(s), strings.TrimSpace(s.LoadBalancerIP)
	switch text := annotated(s); {
	case text != "" && text != given:
		return text, false
	case spec != "" && (spec != First(given) || spec == s.Annotations[AnnotationAsked]):
		return spec, true
	}
	return "", false
}

// Held returns the addresses that s is known to have: those that we noted, or that
// kube-vip's cloud provider wrote down. A requested address
// counts only if one of the two has noted it, or kube-vip publishes it.
func Held(s *lb.Service) []netip.Addr {
	if Noted(s) {
		if given := s.Annotations[AnnotationGiven]; given != "" {
			return list(given)
		}
		return list(s.Annotations[AnnotationAsked])
	}
	text := annotated(s)
	if text == "" {
		text = s.LoadBalancerIP
	}
	held := list(text)
	if s.Labels[Label] == LabelValue {
		return held
	}
	return slices.DeleteFunc(held, func(a netip.Addr) bool {
		return !slices.Contains(s.Published(), a)
	})
}

// Attested says whether what is written on s now is what Fairlead noted.
func Attested(s *lb.Service) bool {
	text := annotated(s)
	return text != "" && (text == s.Annotations[AnnotationGiven] || text == s.Annotations[AnnotationAsked])
}

// First of a list of addresses, as text.
func First(text string) string {
	first, _, _ := strings.Cut(text, ",")
	return strings.TrimSpace(first)
}

func annotated(s *lb.Service) string {
	return strings.TrimSpace(s.Annotations[AnnotationAddresses])
}

// Noted says whether Fairlead has noted what s has.
func Noted(s *lb.Service) bool {
	_, given := s.Annotations[AnnotationGiven]
	_, asked := s.Annotations[AnnotationAsked]
	return given || asked
}

// most is how many addresses of a list count: others are for nobody.
const most = 16

// list reads addresses, without those that stand for one from a DHCP server, and
// without what is none.
func list(text string) (out []netip.Addr) {
	for i, field := range strings.SplitN(text, ",", most+1) {
		if a, err := lb.ParseAddr(field); err == nil && i < most && !a.IsUnspecified() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// strip returns s without spec.loadBalancerIP, which in this dialect may be what
// s was given, or 0.0.0.0: amend reads it.
func strip(s *lb.Service) *lb.Service {
	if s.LoadBalancerIP == "" {
		return s
	}
	stripped := *s
	stripped.LoadBalancerIP = ""
	return &stripped
}
