package native

import (
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// Pool translates p. The API server has checked most of it already, but an
// object may be older than the rules, so everything is checked again; all that
// is wrong is said at once.
func Pool(p *v1alpha1.Pool) lb.Pool {
	var wrong problems
	spans := wrong.spans("addresses", p.Spec.Addresses)
	exclude := wrong.spans("exclude", p.Spec.Exclude)
	if len(p.Spec.Addresses) == 0 {
		wrong.add("addresses: the list is empty")
	}
	for _, s := range spans {
		if kind := lb.Unusable(s); kind != "" {
			wrong.add("addresses: %s has %s addresses, which a Service cannot use", lb.SpanString(s), kind)
		}
	}
	if p.Spec.Priority < 0 {
		wrong.add("priority: %d is negative", p.Spec.Priority)
	}
	if p.Spec.QuotaPerNamespace < 0 {
		wrong.add("quotaPerNamespace: %d is negative", p.Spec.QuotaPerNamespace)
	}
	out := lb.Pool{
		Key:                lb.PoolKey{Dialect: lb.Native, Name: p.Name},
		Created:            p.CreationTimestamp.Time,
		Excluded:           subtract(exclude, nil),
		Descending:         wrong.oneOf("order", string(p.Spec.Order), string(v1alpha1.Ascending), string(v1alpha1.Descending)),
		ManualOnly:         p.Spec.AutoAssign != nil && !*p.Spec.AutoAssign,
		Disabled:           p.Spec.Disabled,
		Exclusive:          wrong.oneOf("sharing", string(p.Spec.Sharing), string(v1alpha1.SharingAllowed), string(v1alpha1.SharingForbidden)),
		Priority:           p.Spec.Priority,
		Quota:              int(p.Spec.QuotaPerNamespace),
		QuotaName:          "the pool's quotaPerNamespace",
		NamespaceSelectors: wrong.selectors("namespaceSelectors", p.Spec.NamespaceSelectors),
		ServiceSelectors:   wrong.selectors("serviceSelectors", p.Spec.ServiceSelectors),
	}
	if keep := p.Spec.Advertise.KeepConnections; keep != nil {
		if keep.Duration < 0 {
			wrong.add("advertise.keepConnections: %s is negative", keep.Duration)
		}
		out.Keep = &keep.Duration
	}
	ad := wrong.advertisement(&p.Spec.Advertise)
	if p.Spec.Advertise.BGP != nil {
		out.Routes = []lb.Route{wrong.route(p, ad.NodeSelectors, spans)}
	}
	if len(out.Routes) == 0 || len(ad.Interfaces) > 0 {
		out.Advertisements = []lb.Advertisement{ad}
	}
	if len(p.Spec.Namespaces) > 0 {
		out.Namespaces = sets.New(p.Spec.Namespaces...)
	}
	out.Spans = subtract(spans, exclude)
	if len(spans) > 0 && len(out.Spans) == 0 && len(wrong) == 0 {
		wrong.add("exclude: it excludes all addresses")
	}
	out.Reserved = wrong.reservations(p.Spec.Reservations, &out)
	if len(wrong) > 0 {
		r := lb.PoolInvalid.With(strings.Join(wrong, "; "))
		out.Invalid = &r
	}
	return out
}

// subtract returns spans without exclude: sorted, disjoint, not adjacent.
func subtract(spans, exclude []netipx.IPRange) []netipx.IPRange {
	var b netipx.IPSetBuilder
	for _, s := range spans {
		b.AddRange(s)
	}
	for _, s := range exclude {
		b.RemoveRange(s)
	}
	set, err := b.IPSet()
	if err != nil { // only for invalid ranges, which were not collected
		return nil
	}
	return set.Ranges()
}

// problems collects what is wrong with one object.
type problems []string

func (w *problems) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

func (w *problems) spans(field string, entries []v1alpha1.Span) []netipx.IPRange {
	var out []netipx.IPRange
	for i, e := range entries {
		s, err := lb.ParseSpan(string(e))
		if err != nil {
			w.add("%s[%d]: %v", field, i, err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// oneOf says whether value is yes; empty means no.
func (w *problems) oneOf(field, value, no, yes string) bool {
	if value != "" && value != no && value != yes {
		w.add("%s: %q is neither %s nor %s", field, value, no, yes)
	}
	return value == yes
}

func (w *problems) selectors(field string, in []metav1.LabelSelector) []labels.Selector {
	var out []labels.Selector
	for i := range in {
		s, err := metav1.LabelSelectorAsSelector(&in[i])
		if err != nil {
			w.add("%s[%d]: %v", field, i, err)
			s = labels.Nothing() // a selector nobody understands must not open the pool to all
		}
		out = append(out, s)
	}
	return out
}

func (w *problems) advertisement(in *v1alpha1.Advertise) lb.Advertisement {
	out := lb.Advertisement{
		Layer2:        lb.Layer2{Interfaces: in.Interfaces, Failback: in.Failback},
		NodeSelectors: w.selectors("advertise.nodeSelectors", in.NodeSelectors),
	}
	for i := range in.PreferredNodes {
		p := &in.PreferredNodes[i]
		s := w.selectors(fmt.Sprintf("advertise.preferredNodes[%d]", i), []metav1.LabelSelector{p.Selector})[0]
		out.Preferred = append(out.Preferred, lb.PreferredNodes{Weight: p.Weight, Selector: s})
	}
	return out
}

func (w *problems) reservations(in []v1alpha1.Reservation, p *lb.Pool) map[netip.Addr]types.NamespacedName {
	if len(in) == 0 {
		return nil
	}
	out := make(map[netip.Addr]types.NamespacedName, len(in))
	for i, r := range in {
		a, err := lb.ParseAddr(r.Address)
		service := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
		switch other, twice := out[a]; {
		case err != nil:
			w.add("reservations[%d]: %v", i, err)
		case !p.Contains(a):
			w.add("reservations[%d]: %s is not an address of the pool", i, a)
		case twice && other != service:
			w.add("reservations[%d]: %s is already reserved for Service %s", i, a, other)
		default:
			out[a] = service
		}
	}
	return out
}
