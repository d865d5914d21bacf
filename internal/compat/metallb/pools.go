package metallb

import (
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// Translate returns the pools by name, each with the advertisements that apply to
// it, and says what there is to tell about which object.
func (o *Objects) Translate() (pools []lb.Pool, problems []Problem) {
	tell := func(kind string, m *metav1.ObjectMeta, r lb.Reason) {
		problems = append(problems, Problem{kind, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.UID, r})
	}
	for i := range o.Pools {
		p := &o.Pools[i]
		if p.Namespace != o.Namespace {
			tell(KindPool, &p.ObjectMeta, Reasons.With(WrongNamespace, o.Namespace))
			continue
		}
		out := pool(p)
		if out.Invalid != nil {
			tell(KindPool, &p.ObjectMeta, *out.Invalid)
		}
		pools = append(pools, out)
	}
	slices.SortFunc(pools, func(p, q lb.Pool) int { return strings.Compare(p.Key.Name, q.Key.Name) })

	labelsOf := o.poolLabels()
	collected := make([]collection, len(pools))
	for _, ad := range o.advertisements() {
		if ad.invalid != nil {
			tell(KindAdvertisement, ad.meta, *ad.invalid)
			continue
		}
		var applies []string
		for i := range pools {
			if name := pools[i].Key.Name; ad.selects(name, labelsOf[name]) {
				applies = append(applies, name)
				collected[i].add(&ad)
			}
		}
		tell(KindAdvertisement, ad.meta, ad.ready(applies, labelsOf))
	}
	for i := range pools {
		pools[i].Advertisements = collected[i].all
	}
	for i := range o.Advertisements {
		if ad := &o.Advertisements[i]; ad.Namespace != o.Namespace {
			tell(KindAdvertisement, &ad.ObjectMeta, Reasons.With(WrongNamespace, o.Namespace))
		}
	}
	sortProblems(problems)
	return pools, problems
}

// TranslateAll translates all objects, those about BGP included: pools have their routes, too,
// and Problems are those of all objects.
func (o *Objects) TranslateAll() ([]lb.Pool, Routing) {
	pools, problems := o.Translate()
	b := o.BGP
	b.Namespace, b.Pools = o.Namespace, o.Pools
	routing := b.Translate()
	for i := range pools {
		pools[i].Routes = routing.Routes[pools[i].Key.Name]
	}
	routing.Problems = append(routing.Problems, problems...)
	sortProblems(routing.Problems)
	return pools, routing
}

// poolLabels returns the labels of the pools that count, by name.
func (o *Objects) poolLabels() map[string]map[string]string {
	out := make(map[string]map[string]string, len(o.Pools))
	for i := range o.Pools {
		if p := &o.Pools[i]; p.Namespace == o.Namespace {
			out[p.Name] = p.Labels
		}
	}
	return out
}

// pool translates p. All that is wrong with it is said at once.
func pool(p *metallb.IPAddressPool) lb.Pool {
	var wrong faults
	out := lb.Pool{
		Key:          lb.PoolKey{Dialect: Name, Name: p.Name},
		Created:      p.CreationTimestamp.Time,
		Spans:        wrong.spans(p.Name, p.Spec.Addresses),
		ManualOnly:   p.Spec.AutoAssign != nil && !*p.Spec.AutoAssign,
		SkipIPv4Ends: p.Spec.AvoidBuggyIPs,
		SinglePool:   true,
		Labels:       p.Labels,
	}
	if to := p.Spec.AllocateTo; to != nil {
		out.Pinned = true
		out.Priority = int32(min(max(to.Priority, math.MinInt32), math.MaxInt32))
		out.NamespaceSelectors = wrong.selectors("serviceAllocation.namespaceSelectors", to.NamespaceSelectors)
		out.ServiceSelectors = wrong.selectors("serviceAllocation.serviceSelectors", to.ServiceSelectors)
		for _, twice := range repeated(to.Namespaces) {
			wrong.add("serviceAllocation.namespaces: duplicate definition in namespaces field: %q", twice)
		}
		if len(to.Namespaces) > 0 {
			out.Namespaces = sets.New(to.Namespaces...)
		}
	}
	if len(wrong) > 0 {
		r := lb.PoolInvalid.With(strings.Join(wrong, "; "))
		out.Invalid = &r
	}
	return out
}
