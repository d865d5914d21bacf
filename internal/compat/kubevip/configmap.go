package kubevip

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

const (
	global         = "global"
	descending     = "desc"
	namespaceFirst = "namespace-first"
	retiredKey     = "kubevip-services"
)

// dhcp are the entries that stand for an address from a DHCP server.
var dhcp = [len(lb.Families)]netip.Prefix{netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128")}

// draft is a ConfigMap while it is read.
type draft struct {
	Config
	created time.Time
	data    map[string]string
	pools   map[string]string // by key
	quotas  map[string]int
	desc    bool
	// keepEnds: the first and last address of an IPv4 CIDR are handed out.
	keepEnds bool
	nearest  bool // a namespace's own keys come first
}

// Parse reads the ConfigMap; nil is one that is not there.
func Parse(cm *corev1.ConfigMap) *Config {
	d := draft{
		Config: Config{interfaces: map[string]string{}, share: map[string]bool{}, poolOf: map[string]string{}},
		pools:  map[string]string{}, quotas: map[string]int{},
	}
	if cm != nil {
		d.Present = true
		d.created, d.data = cm.CreationTimestamp.Time, cm.Data
	}
	for _, key := range slices.Sorted(maps.Keys(d.data)) {
		d.read(key, strings.TrimSpace(d.data[key]))
	}
	d.choose()
	for _, key := range slices.Sorted(maps.Keys(d.pools)) {
		d.Pools = append(d.Pools, d.pool(key))
	}
	d.sort()
	return &d.Config
}

// read takes one key over.
func (d *draft) read(key, value string) {
	switch {
	case strings.HasPrefix(key, KeyCIDR), strings.HasPrefix(key, KeyRange):
		d.pools[key] = value
	case strings.HasPrefix(key, KeyInterface):
		d.interfaces[strings.TrimPrefix(key, KeyInterface)] = value
	case strings.HasPrefix(key, KeyShared), strings.HasPrefix(key, KeyShare):
		_, namespace, _ := strings.Cut(strings.TrimPrefix(key, "allow-"), "-")
		d.share[namespace] = d.flag(key, value)
	case strings.HasPrefix(key, KeyQuota):
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			d.tell(key, lb.KeyInvalid.With(key, fmt.Sprintf("%q is not a number of addresses", value)))
			return
		}
		d.quotas[strings.TrimPrefix(key, KeyQuota)] = n
	case key == KeyOrder:
		d.desc = value == descending
		if !d.desc && value != "asc" && value != "" {
			d.tell(key, lb.KeyInvalid.With(key, fmt.Sprintf("%q is neither asc nor desc, and counts as asc", value)))
		}
	case key == KeySkipEnds:
		d.keepEnds = value == "false"
		if !d.keepEnds && value != "true" {
			d.tell(key, lb.KeyInvalid.With(key, fmt.Sprintf("%q is neither true nor false, and counts as true", value)))
		}
	case key == KeyPrecedence:
		d.nearest = value == namespaceFirst
		if !d.nearest && value != "cidr-first" {
			d.tell(key, lb.KeyInvalid.With(key, fmt.Sprintf("%q is neither cidr-first nor namespace-first, and counts as cidr-first", value)))
		}
	case key == retiredKey:
		d.tell(key, lb.KeyUnknown.With(key, "it is not used any more"))
	default:
		d.tell(key, lb.KeyUnknown.With(key, "there are cidr-, range-, interface-, allow-share- and quota- with a namespace or global, search-order, skip-end-ips-in-cidr and pool-precedence"))
	}
}

func (d *draft) flag(key, value string) bool {
	yes, err := strconv.ParseBool(value)
	if err != nil {
		d.tell(key, lb.KeyInvalid.With(key, fmt.Sprintf("%q is neither true nor false, and counts as false", value)))
	}
	return yes
}

// choose finds the one pool of each namespace, and drops those that no namespace
// has.
func (d *draft) choose() {
	used := sets.New[string]()
	pick := func(keys ...string) (picked string) {
		for _, key := range keys {
			if _, ok := d.pools[key]; !ok {
				continue
			}
			if picked == "" {
				picked = key
			} else {
				d.shadowed(key, picked)
			}
		}
		return picked
	}
	if d.global = pick(KeyCIDR+global, KeyRange+global); d.global != "" {
		used.Insert(d.global)
	}
	for _, namespace := range d.poolNamespaces() {
		cidr, span := KeyCIDR+namespace, KeyRange+namespace
		_, hasCIDR := d.pools[cidr]
		_, globalCIDR := d.pools[KeyCIDR+global]
		switch {
		case hasCIDR || d.nearest || !globalCIDR:
			d.poolOf[namespace] = pick(cidr, span)
			used.Insert(d.poolOf[namespace])
		default:
			d.shadowed(span, KeyCIDR+global)
		}
	}
	for key := range d.pools {
		if !used.Has(key) {
			delete(d.pools, key)
		}
	}
	for namespace := range d.quotas {
		if _, own := d.poolOf[namespace]; !own && namespace != global {
			d.tell(KeyQuota+namespace, lb.KeyUnknown.With(KeyQuota+namespace, "the namespace has no pool of its own; quota-global limits each namespace that uses the global one"))
		}
	}
}

func (d *draft) shadowed(key, by string) {
	if !slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.Key == key }) {
		d.tell(key, lb.KeyShadowed.With(key, by))
	}
}

// poolNamespaces are those with a pool of their own, as far as keys tell.
func (d *draft) poolNamespaces() []string {
	out := sets.New[string]()
	for key := range d.pools {
		if _, namespace, _ := strings.Cut(key, "-"); namespace != global {
			out.Insert(namespace)
		}
	}
	return sets.List(out)
}

// pool translates the value of one key.
func (d *draft) pool(key string) lb.Pool {
	_, namespace, _ := strings.Cut(key, "-")
	p := lb.Pool{
		Key:            lb.PoolKey{Dialect: lb.KubeVIP, Name: key},
		Created:        d.created,
		Descending:     d.desc,
		MayOverlap:     true,
		SkipIPv4Ends:   true,
		Quota:          d.quotas[namespace],
		Advertisements: []lb.Advertisement{{}},
	}
	if namespace == global {
		p.Except = d.namespaces()
	} else {
		p.Namespaces = sets.New(namespace)
	}
	var wrong []string
	p.Spans, p.DHCP, wrong = spans(d.pools[key], d.keepEnds)
	if len(wrong) > 0 {
		text := strings.Join(wrong, "; ")
		r := lb.PoolInvalid.With(text)
		p.Invalid = &r
		d.tell(key, lb.KeyInvalid.With(key, text))
	}
	return p
}

// spans reads a list of CIDRs or, if there is no slash in it, of ranges. What is
// wrong with any entry is said of all at once.
func spans(value string, keepEnds bool) (out []netipx.IPRange, leased [len(lb.Families)]bool, wrong []string) {
	byCIDR := strings.Contains(value, "/")
	var all [len(lb.Families)][]netipx.IPRange
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		switch {
		case byCIDR && !strings.Contains(entry, "/"):
			wrong = append(wrong, fmt.Sprintf("%q is not a CIDR such as 192.0.2.0/24, as the others are", entry))
			continue
		case !byCIDR && !strings.Contains(entry, "-"):
			wrong = append(wrong, fmt.Sprintf("%q is neither a range such as 192.0.2.1-192.0.2.9 nor a CIDR", entry))
			continue
		}
		span, err := lb.ParseSpan(entry)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		all[lb.FamilyOf(span.From())] = append(all[lb.FamilyOf(span.From())], span)
	}
	var set netipx.IPSetBuilder
	for _, f := range lb.Families {
		if byCIDR && len(all[f]) == 1 && all[f][0] == netipx.RangeOfPrefix(dhcp[f]) {
			leased[f] = true
			continue
		}
		for _, span := range all[f] {
			if kind := lb.Unusable(span); kind != "" && kind != lb.LinkLocal {
				wrong = append(wrong, fmt.Sprintf("%s has %s addresses, at which no Service can be reached", lb.SpanString(span), kind))
				continue
			}
			set.AddRange(span)
		}
	}
	merged, err := set.IPSet()
	if err != nil {
		return nil, leased, append(wrong, err.Error())
	}
	if byCIDR && !keepEnds {
		for _, p := range merged.Prefixes() {
			if p.Addr().Is4() && p.Bits() <= 30 {
				span := netipx.RangeOfPrefix(p)
				set.Remove(span.From())
				set.Remove(span.To())
			}
		}
		if merged, err = set.IPSet(); err != nil {
			return nil, leased, append(wrong, err.Error())
		}
	}
	return merged.Ranges(), leased, wrong
}
