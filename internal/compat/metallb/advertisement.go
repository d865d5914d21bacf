package metallb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// advertisement is an L2Advertisement that was read.
type advertisement struct {
	lb.Advertisement
	meta      *metav1.ObjectMeta
	pools     sets.Set[string]  // by name
	selectors []labels.Selector // of pools; without these and names, all
	saying    string            // see sayingOf
	invalid   *lb.Reason        // why it applies nowhere
}

// advertisements returns those that count, by name.
func (o *Objects) advertisements() []advertisement {
	var out []advertisement
	for i := range o.Advertisements {
		if ad := &o.Advertisements[i]; ad.Namespace == o.Namespace {
			out = append(out, advertisementOf(ad))
		}
	}
	slices.SortFunc(out, func(a, b advertisement) int { return strings.Compare(a.meta.Name, b.meta.Name) })
	return out
}

func advertisementOf(in *metallb.L2Advertisement) advertisement {
	var wrong faults
	spec := &in.Spec
	out := advertisement{
		meta:      &in.ObjectMeta,
		pools:     sets.New(spec.IPAddressPools...),
		selectors: wrong.selectors("ipAddressPoolSelectors", spec.IPAddressPoolSelectors),
		Advertisement: lb.Advertisement{
			Layer2:           lb.Layer2{Interfaces: spec.Interfaces},
			NodeSelectors:    wrong.selectors("nodeSelectors", spec.NodeSelectors),
			ServiceSelectors: wrong.selectors("serviceSelectors", spec.ServiceSelectors),
		},
	}
	for _, twice := range repeated(spec.IPAddressPools) {
		wrong.add("ipAddressPools: duplicate definition of ipAddressPools %q", twice)
	}
	for i := range spec.PreferredNodeSelectors {
		p := &spec.PreferredNodeSelectors[i]
		at := fmt.Sprintf("preferredNodeSelectors[%d]", i)
		if p.Weight < 1 || p.Weight > 100 {
			wrong.add("%s: weight %d is not between 1 and 100", at, p.Weight)
		}
		out.Preferred = append(out.Preferred, lb.PreferredNodes{Weight: p.Weight, Selector: wrong.selector(at+".preference", &p.Preference)})
	}
	if len(wrong) > 0 {
		r := Reasons.With(AdvertisementInvalid, strings.Join(wrong, "; "))
		out.invalid = &r
	}
	out.saying = sayingOf(&out.Advertisement)
	return out
}

// all says whether the advertisement is for all pools.
func (a *advertisement) all() bool { return len(a.pools) == 0 && len(a.selectors) == 0 }

// selects says whether the advertisement is for a pool with this name and labels.
func (a *advertisement) selects(name string, l map[string]string) bool {
	return a.all() || a.pools.Has(name) ||
		slices.ContainsFunc(a.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(l)) })
}

// ready says to which pools the advertisement applies. Names of pools that do not
// exist are no fault, for they may come, but may also be misspelt.
func (a *advertisement) ready(applies []string, exist map[string]map[string]string) lb.Reason {
	what := "no pool"
	switch n := len(applies); {
	case a.all():
		what = "all pools"
	case n == 1:
		what = "pool " + quoted(applies)
	case n > 1:
		what = "pools " + quoted(applies)
	}
	switch missing := sets.List(a.pools.Difference(sets.KeySet(exist))); {
	case len(missing) == 1:
		what += "; there is no pool " + quoted(missing)
	case len(missing) > 1:
		what += "; there are no pools " + quoted(missing)
	}
	return Reasons.With(AdvertisementReady, what)
}

// quoted writes names as they are read in a sentence, the first few of many.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return prose.Few(out)
}

// sayingOf returns the same for advertisements that are for the same nodes,
// interfaces and Services. Preferences add up, so one that has some is never the
// same as another.
func sayingOf(ad *lb.Advertisement) string {
	if len(ad.Preferred) > 0 {
		return ""
	}
	return written([][]string{set(ad.Interfaces), set(texts(ad.NodeSelectors)), set(texts(ad.ServiceSelectors))})
}

func texts(selectors []labels.Selector) []string {
	var out []string
	for _, s := range selectors {
		out = append(out, s.String())
	}
	return out
}

// set returns the entries of list, each once, sorted.
func set(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// collection is the advertisements of one pool, without duplicates.
type collection struct {
	all  []lb.Advertisement
	seen sets.Set[string]
}

func (c *collection) add(ad *advertisement) {
	if ad.saying != "" {
		if c.seen.Has(ad.saying) {
			return
		}
		if c.seen == nil {
			c.seen = sets.Set[string]{}
		}
		c.seen.Insert(ad.saying)
	}
	c.all = append(c.all, ad.Advertisement)
}

// Orphans returns the advertisements for addresses of a pool that is gone: those
// that name it, those that are for all pools, and those that selected it by the labels
// that it had; nil if these are not known.
func (o *Objects) Orphans(pool string, had map[string]string) []lb.Advertisement {
	var out collection
	for _, ad := range o.advertisements() {
		if ad.invalid == nil && (ad.all() || ad.pools.Has(pool) || had != nil && ad.selects(pool, had)) {
			out.add(&ad)
		}
	}
	return out.all
}
