package native

import (
	"strconv"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// route reads how the addresses of a pool are announced by BGP.
func (w *problems) route(p *v1alpha1.Pool, nodes []labels.Selector, spans []netipx.IPRange) lb.Route {
	in := p.Spec.Advertise.BGP
	out := lb.Route{Name: p.Name, Created: p.CreationTimestamp.Time, NodeSelectors: nodes, Peers: in.Peers, LocalPref: uint32(min(max(in.LocalPref, 0), 1<<32-1)),
		Aggregation: [...]int{lb.IPv4: w.aggregation("aggregationLength", in.AggregationLength, 32), lb.IPv6: w.aggregation("aggregationLengthV6", in.AggregationLengthV6, 128)}}
	if int64(out.LocalPref) != in.LocalPref {
		w.add("advertise.bgp.localPref: %d is not between 0 and 4294967295", in.LocalPref)
	}
	for i, text := range in.Communities {
		c, err := lb.ParseCommunity(text)
		if err != nil {
			w.add("advertise.bgp.communities[%d]: %v", i, err)
			continue
		}
		out.Communities = append(out.Communities, c)
	}
	if n := len(out.Communities); n > lb.MaxCommunities {
		w.add("advertise.bgp.communities: %d are more than a route may have, %d", n, lb.MaxCommunities)
	}
	asked := out.Aggregation
	for _, s := range spans {
		f, widest := lb.FamilyOf(s.From()), s.From().BitLen()
		for _, prefix := range s.Prefixes() {
			widest = min(widest, prefix.Bits())
		}
		if asked[f] < widest {
			w.add("advertise.bgp: a prefix of length %d is wider than %s, an entry of the pool (/%d)", asked[f], lb.SpanString(s), widest)
			out.Aggregation[f] = s.From().BitLen() // somebody else's addresses must not be announced
		}
	}
	return out
}

func (w *problems) aggregation(field string, length *int32, most int) int {
	if length == nil {
		return most
	}
	if n := int(*length); n < 1 || n > most {
		w.add("advertise.bgp.%s: %d is not between 1 and %d", field, n, most)
		return most
	}
	return int(*length)
}

// routeRequest reads what a Service asks for about its routes. What cannot be understood is
// left out and told: the rest is announced.
func routeRequest(s *lb.Service) lb.RouteRequest {
	var out lb.RouteRequest
	var wrong problems
	if v, ok := s.Annotations[AnnotationBGPCommunities]; ok {
		if n := strings.Count(v, ",") + 1; n > lb.MaxCommunities {
			wrong.add("annotation %s has %d entries; at most %d are allowed", AnnotationBGPCommunities, n, lb.MaxCommunities)
			v = ""
		}
		for word := range strings.SplitSeq(v, ",") {
			word = strings.TrimSpace(word)
			c, err := lb.ParseCommunity(word)
			switch {
			case word == "":
			case err == nil:
				out.Communities = append(out.Communities, c)
			case !strings.Contains(word, ":"):
				out.Aliases = append(out.Aliases, word)
			default:
				wrong.add("annotation %s: %v", AnnotationBGPCommunities, err)
			}
		}
	}
	if v, ok := s.Annotations[AnnotationBGPLocalPref]; ok {
		n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 32)
		if err != nil {
			wrong.add("annotation %s: %q is not a number between 0 and 4294967295", AnnotationBGPLocalPref, v)
		}
		out.LocalPref, out.HasLocalPref = uint32(n), err == nil
	}
	if v, ok := s.Annotations[AnnotationBGPDrain]; ok {
		yes, err := strconv.ParseBool(strings.TrimSpace(v))
		if err != nil {
			wrong.add("annotation %s: %q is neither true nor false", AnnotationBGPDrain, v)
		}
		out.Drain = yes
	}
	out.Wrong = strings.Join(wrong, "; ")
	return out
}
