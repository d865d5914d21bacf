package metallb

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// bgpPool is a pool as announcements see it.
type bgpPool struct {
	name     string
	labels   map[string]string
	widest   [len(lb.Families)]int // the longest prefix that has all addresses of some entry
	families [len(lb.Families)]bool
}

// bgpPools returns the pools that count, by name.
func (b *BGP) bgpPools() []bgpPool {
	var out []bgpPool
	for i := range b.Pools {
		in := &b.Pools[i]
		if in.Namespace != b.Namespace {
			continue
		}
		p := bgpPool{name: in.Name, labels: in.Labels}
		for _, entry := range in.Spec.Addresses {
			span, err := parseSpan(entry)
			if err != nil {
				continue // reported on the pool
			}
			f := lb.FamilyOf(span.From())
			bits := span.From().BitLen()
			for _, prefix := range span.Prefixes() {
				bits = min(bits, prefix.Bits())
			}
			p.families[f] = true
			p.widest[f] = max(p.widest[f], bits)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(p, q bgpPool) int { return strings.Compare(p.name, q.name) })
	return out
}

// routes returns the routes of each pool, the oldest first, and the advertisements that make
// them.
func (b *BGP) routes(aliases map[string]lb.Community, peers []lb.Peer, next *Former, tell teller) (out map[string][]lb.Route, used []routed) {
	pools := b.bgpPools()
	out = map[string][]lb.Route{}
	known := map[string]map[string]string{}
	for _, p := range pools {
		known[p.name] = p.labels
	}
	reader := communities{aliases, b.Former.aliases, next.aliases}
	for _, o := range readAll[metallb.BGPAdvertisementSpec](b, KindBGPAdvertisement, b.Advertisements, tell) { // the oldest first
		is, names, wrong := routeOf(&o.ObjectMeta, &o.spec, &reader)
		wrong = o.faults(wrong)
		was, had := b.Former.routes[o.UID]
		if had = had && o.UID != ""; len(wrong) > 0 {
			why := Reasons.With(AdvertisementInvalid, strings.Join(wrong, "; "))
			if !had {
				tell(KindBGPAdvertisement, &o.ObjectMeta, why)
				continue
			}
			tell(KindBGPAdvertisement, &o.ObjectMeta, why.And(Reasons.With(AdvertisementKept)))
			is = was
		}
		used = append(used, is)
		applies, refused := b.apply(&is, &was, had, pools, out)
		switch {
		case len(wrong) > 0:
			next.routes[o.UID] = was
			continue
		case refused != nil && had:
			next.routes[o.UID] = was
		case refused != nil && len(applies) == 0: // there is nothing that could go on
		default:
			next.routes[o.UID] = is
		}
		ready := is.ready(applies, known)
		if missing := missingPeers(is.route.Peers, peers); len(missing) > 0 {
			ready = Reasons.With(PeerUnknown, quoted(missing))
		}
		if told := names.told(); told != nil {
			ready = *told
		}
		if refused != nil {
			ready = *refused
		}
		tell(KindBGPAdvertisement, &o.ObjectMeta, ready)
	}
	return out, used
}

// apply adds the route of an advertisement to the pools that it selects. Where it is refused, the
// one that it was before goes on, if it had one.
func (b *BGP) apply(is, was *routed, had bool, pools []bgpPool, out map[string][]lb.Route) (applies []string, refused *lb.Reason) {
	for _, p := range pools {
		if !is.selects(p.name, p.labels) {
			continue
		}
		route := is.route
		if why := b.refuses(&p, &route, out[p.name]); why != nil {
			kept := had && was.selects(p.name, p.labels) && b.refuses(&p, &was.route, out[p.name]) == nil
			if kept {
				*why = why.And(Reasons.With(AdvertisementKept))
			}
			if refused != nil {
				*why = refused.And(*why)
			}
			if refused = why; !kept {
				continue
			}
			route = was.route
		}
		out[p.name] = append(out[p.name], route)
		applies = append(applies, p.name)
	}
	return applies, refused
}

// refuses says why a route is not used for a pool that has older ones.
func (b *BGP) refuses(p *bgpPool, route *lb.Route, older []lb.Route) *lb.Reason {
	for _, f := range lb.Families {
		if p.families[f] && route.Aggregation[f] < p.widest[f] {
			r := Reasons.With(AggregateTooWide, p.name, f.String(), route.Aggregation[f], p.widest[f])
			return &r
		}
	}
	for i := range older {
		if route.Contradicts(&older[i], b.Nodes, p.families) {
			r := lb.AdvertisementConflict.With(route.Name, fmt.Sprintf("pool %q", p.name), older[i].Name, older[i].LocalPref, route.LocalPref)
			return &r
		}
	}
	return nil
}

// missingPeers returns the names that no peer has: they may come, but may also be misspelt.
func missingPeers(names []string, peers []lb.Peer) []string {
	var out []string
	for _, name := range names {
		if !slices.ContainsFunc(peers, func(p lb.Peer) bool { return p.Name == name }) {
			out = append(out, name)
		}
	}
	return out
}

func routeOf(m *metav1.ObjectMeta, spec *metallb.BGPAdvertisementSpec, names *communities) (routed, named, faults) {
	var wrong faults
	ad := advertisement{meta: m, pools: sets.New(spec.IPAddressPools...), selectors: wrong.selectors("ipAddressPoolSelectors", spec.IPAddressPoolSelectors)}
	route := lb.Route{
		Name: m.Name, Created: m.CreationTimestamp.Time,
		NodeSelectors:    wrong.selectors("nodeSelectors", spec.NodeSelectors),
		ServiceSelectors: wrong.selectors("serviceSelectors", spec.ServiceSelectors),
		Peers:            spec.Peers,
		Aggregation:      [...]int{lb.IPv4: wrong.aggregation("aggregationLength", spec.AggregationLength, 32), lb.IPv6: wrong.aggregation("aggregationLengthV6", spec.AggregationLengthV6, 128)},
		LocalPref:        spec.LocalPref,
	}
	var unknown named
	route.Communities, unknown = names.read(spec.Communities, &wrong)
	for _, list := range []struct {
		field string
		words []string
	}{{"ipAddressPools", spec.IPAddressPools}, {"communities", spec.Communities}, {"peers", spec.Peers}} {
		for _, twice := range repeated(list.words) {
			wrong.add("%s: duplicate definition of %s %q", list.field, list.field, twice)
		}
	}
	if n := len(route.Communities); n > lb.MaxCommunities {
		wrong.add("communities: %d are more than a route may have, %d", n, lb.MaxCommunities)
	}
	if len(route.ServiceSelectors) > 0 && route.Aggregation != [...]int{lb.IPv4: 32, lb.IPv6: 128} {
		wrong.add("serviceSelectors: they need aggregationLength 32 and aggregationLengthV6 128: an aggregate has addresses of other Services")
	}
	return routed{ad, route}, unknown, wrong
}

func (w *faults) aggregation(field string, length *int32, most int) int {
	if length == nil {
		return most
	}
	if n := int(*length); n < 1 || n > most {
		w.add("%s: invalid aggregation length %d: it must be between 1 and %d", field, n, most)
		return most
	}
	return int(*length)
}
