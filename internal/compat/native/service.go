package native

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// amend adds to r what s asks for in our own annotations. What cannot be understood
// is said in Request.Invalid.
func amend(r *lb.Request, s *lb.Service, in compat.Class) {
	r.Pool = strings.TrimSpace(s.Annotations[AnnotationPool])
	r.From = from(s)
	r.ShareKey = strings.TrimSpace(s.Annotations[AnnotationShare])
	var wrong problems
	wrong.unknown(s, in)
	r.Addresses = wrong.addresses(s)
	_, r.Several = s.Annotations[AnnotationAddresses]
	if v, ok := s.Annotations[AnnotationReallocate]; ok {
		yes, err := strconv.ParseBool(v)
		if err != nil {
			wrong.add("Annotation %s: %q is neither true nor false", AnnotationReallocate, v)
		}
		r.Reallocate = yes
	}
	if v, ok := s.Annotations[AnnotationDryRun]; ok {
		yes, err := strconv.ParseBool(v)
		r.DryRun = in.Plans && (yes || err != nil) // an unreadable value must not change anything
	}
	r.Route = routeRequest(s)
	if len(wrong) > 0 {
		reason := lb.InvalidRequest.With(strings.Join(wrong, "; "))
		r.Invalid = &reason
	}
}

// from returns the names in AnnotationAllocatedFrom, without their dialects.
func from(s *lb.Service) []string {
	var out []string
	for key := range strings.SplitSeq(s.Annotations[AnnotationAllocatedFrom], ",") {
		if name := key[strings.LastIndex(key, "/")+1:]; name != "" {
			out = append(out, name)
		}
	}
	return out
}

// What a person or another controller writes may be of any length.
const maxAddresses = 16

// prefix of all our annotations, and those that there are.
const prefix = "fairlead.io/"

var (
	known = []string{AnnotationAddresses, AnnotationAllocatedFrom, AnnotationPool, AnnotationReallocate, AnnotationShare}
	// routing ones are not worth a mention where somebody misspelt a request for addresses.
	routing = []string{AnnotationBGPCommunities, AnnotationBGPLocalPref, AnnotationBGPDrain}
	written = []string{AnnotationGiven, AnnotationAsked, AnnotationReason, AnnotationDHCP}
)

// unknown notes annotations that look like ours and are not: a misspelt request that
// is passed over in silence gives the Service another address than it asks for.
func (w *problems) unknown(s *lb.Service, in compat.Class) {
	var names []string
	for name := range s.Annotations {
		if planned := name == AnnotationDryRun && in.Plans; strings.HasPrefix(name, prefix) && !planned && !slices.Contains(known, name) && !slices.Contains(routing, name) && !slices.Contains(written, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		w.add("Annotation %s is unknown; known ones are %s", name, prose.And(known))
	}
}

func (w *problems) addresses(s *lb.Service) []netip.Addr {
	list, annotated := s.Annotations[AnnotationAddresses]
	var out []netip.Addr
	if n := strings.Count(list, ",") + 1; n > maxAddresses {
		w.add("Annotation %s has %d entries; at most %d are allowed", AnnotationAddresses, n, maxAddresses)
		list = ""
	}
	for field := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		w.address(&out, "Annotation "+AnnotationAddresses, field)
	}
	if annotated && len(out) == 0 && len(*w) == 0 {
		w.add("Annotation %s is empty", AnnotationAddresses)
	}
	if ip := s.LoadBalancerIP; ip != "" {
		before := len(out)
		w.address(&out, "spec.loadBalancerIP", ip)
		if before > 0 && len(out) > before {
			w.add("spec.loadBalancerIP requests %s, and annotation %s requests %s; remove one of them", ip, AnnotationAddresses, list)
		}
	}
	return out
}

func (w *problems) address(out *[]netip.Addr, where, text string) {
	a, err := lb.ParseAddr(text)
	if err != nil {
		w.add("%s: %v", where, err)
		return
	}
	if kind := lb.Unusable(netipx.IPRangeFrom(a, a)); kind != "" {
		w.add("%s: %s is a %s address, which a Service cannot use", where, a, kind)
		return
	}
	if !slices.Contains(*out, a) {
		*out = append(*out, a)
	}
}
