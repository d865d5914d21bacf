package metallb

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Asked is one thing that a Service asks for.
type Asked struct {
	Annotation string // as it is on the Service
	Value      string // empty if nothing is asked for
}

// Asks is what the annotations of a Service ask for.
type Asks struct {
	// Annotated says whether there is any annotation that asks for something, or
	// could.
	Annotated bool
	Pool      Asked
	ShareKey  Asked
	List      Asked // of addresses, as it is written
	Addresses []netip.Addr
	// From is the pool that is written down with the Service's addresses.
	From string
	// Invalid, if set, says what cannot be understood.
	Invalid *lb.Reason
}

// Read returns what the annotations of s ask for, a Service with these families.
func Read(s *lb.Service, families []lb.Family) Asks {
	var out Asks
	take := func(annotation string) Asked {
		w, present := askedIn(s, annotation)
		out.Annotated = out.Annotated || present
		return w
	}
	out.Pool, out.ShareKey, out.List = take(AnnotationAddressPool), take(AnnotationShare), take(AnnotationAddresses)
	from, _ := askedIn(s, AnnotationAllocatedFrom)
	out.From = from.Value
	if out.List.Value != "" {
		out.Addresses, out.Invalid = addresses(s, out.List, families)
	}
	return out
}

// askedIn returns what s says under annotation, or under its name of old.
func askedIn(s *lb.Service, annotation string) (a Asked, present bool) {
	for _, name := range []string{annotation, nameOfOld(annotation)} {
		if value, ok := s.Annotations[name]; ok {
			return Asked{name, strings.TrimSpace(value)}, true
		}
	}
	return Asked{Annotation: annotation}, false
}

func nameOfOld(annotation string) string {
	return oldPrefix + strings.TrimPrefix(annotation, prefix)
}

// addresses reads the list w of addresses.
func addresses(s *lb.Service, w Asked, families []lb.Family) ([]netip.Addr, *lb.Reason) {
	var wrong faults
	if s.LoadBalancerIP != "" {
		wrong.add("The service can not have both %s and svc.Spec.LoadBalancerIP; remove one of them", w.Annotation)
	}
	var out []netip.Addr
	if n := strings.Count(w.Value, ",") + 1; n > len(lb.Families) {
		wrong.add("Annotation %s has %d addresses; at most one per IP family is allowed", w.Annotation, n)
	} else {
		for text := range strings.SplitSeq(w.Value, ",") {
			a, err := lb.ParseAddr(text)
			if err != nil {
				wrong.add("Annotation %s: %v", w.Annotation, err)
				continue
			}
			if kind := lb.Unusable(netipx.IPRangeFrom(a, a)); kind != "" {
				wrong.add("Annotation %s: %s is a %s address, which a Service cannot use", w.Annotation, a, kind)
			}
			out = append(out, a)
		}
	}
	if len(wrong) > 0 {
		r := lb.InvalidRequest.With(strings.Join(wrong, "; "))
		return out, &r
	}
	return out, mismatch(out, families)
}

// mismatch says if the addresses are not one of each of the families.
func mismatch(addresses []netip.Addr, families []lb.Family) *lb.Reason {
	var asked []lb.Family
	for _, a := range addresses {
		asked = append(asked, lb.FamilyOf(a))
	}
	if len(asked) == len(families) && !slices.ContainsFunc(families, func(f lb.Family) bool { return !slices.Contains(asked, f) }) {
		return nil
	}
	r := lb.FamilyMismatch.With(prose.Commas(addresses), prose.Addrs(families))
	return &r
}

// OldAnnotations lists the annotations of s under their names of old, and what to
// use in their place; both are empty if there are none.
func OldAnnotations(s *lb.Service) (old, use string) {
	var names, instead []string
	for _, annotation := range []string{AnnotationAddressPool, AnnotationAddresses, AnnotationShare} {
		if _, ok := s.Annotations[nameOfOld(annotation)]; ok {
			names, instead = append(names, nameOfOld(annotation)), append(instead, annotation)
		}
	}
	return prose.And(names), prose.And(instead)
}
