package kubevip

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	global         = "global"
	descending     = "desc"
	namespaceFirst = "namespace-first"
	honour         = "honour"
	refuse         = "refuse"
	retiredKey     = "kubevip-services"
)

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
	switch key {
	case KeyOrder:
		d.desc = value == descending
		if !d.desc && value != "asc" {
			d.wrong(key, "%s is neither asc nor desc; asc is used", prose.Quote(value))
		}
	case KeySkipEnds:
		d.keepEnds = value == "false"
		if !d.keepEnds && value != "true" {
			d.wrong(key, "%s is neither true nor false; true is used", prose.Quote(value))
		}
	case KeyPrecedence:
		d.nearest = value == namespaceFirst
		if !d.nearest && value != "cidr-first" {
			d.wrong(key, "%s is neither cidr-first nor namespace-first; cidr-first is used", prose.Quote(value))
		}
	case KeyOutside:
		d.strict = value != honour // what restricts, and cannot be read, restricts
		if d.strict && value != refuse {
			d.wrong(key, "%s is neither honour nor refuse; refuse is used", prose.Quote(value))
		}
	case retiredKey:
		d.tell(key, Reasons.With(KeyUnknown, key, "it is no longer used"))
	default:
		for _, prefix := range []string{KeyCIDR, KeyRange, KeyInterface, KeyShare, KeyShared, KeyQuota} {
			if namespace, ok := strings.CutPrefix(key, prefix); ok {
				d.readOf(namespace, prefix, value)
				return
			}
		}
		d.tell(key, Reasons.With(KeyUnknown, key, "known keys are cidr-, range-, interface-, allow-share- and quota-, each followed by a namespace or global, and search-order, skip-end-ips-in-cidr, pool-precedence and outside-pools"))
	}
}

// readOf takes over the key that starts with prefix and goes on with a namespace.
func (d *draft) readOf(namespace, prefix, value string) {
	key := prefix + namespace
	switch {
	case namespace == "":
		d.tell(key, Reasons.With(KeyUnknown, key, "it must end in the name of a namespace, or in global"))
		return
	case len(validation.IsDNS1123Label(namespace)) > 0:
		d.tell(key, Reasons.With(KeyUnknown, key, fmt.Sprintf("%q is not a valid name of a namespace", namespace)))
		return
	}
	switch prefix {
	case KeyCIDR, KeyRange:
		d.pools[key] = value
	case KeyInterface:
		if fault := notAnInterface(value); fault != "" {
			d.wrong(key, "%s %s; it is ignored", prose.Quote(value), fault)
			return
		}
		d.interfaces[namespace] = value
	case KeyShare:
		d.share[namespace] = d.flag(key, value)
	case KeyShared: // its turn is after that of KeyShare
		same := KeyShare + namespace
		if _, twice := d.data[same]; !twice {
			d.share[namespace] = d.flag(key, value)
		} else if yes, err := strconv.ParseBool(value); err != nil || yes != d.share[namespace] {
			d.tell(key, Reasons.With(KeyUnknown, key, "key "+same+" means the same, has another value, and takes precedence"))
		}
	case KeyQuota:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			d.wrong(key, "%s is not a number of 1 or more; no new address is assigned from the pool", prose.Quote(value))
			n = lb.NothingNew
		}
		d.quotas[namespace] = n
	}
}

func (d *draft) flag(key, value string) bool {
	yes, err := strconv.ParseBool(value)
	if err != nil {
		d.wrong(key, "%s is neither true nor false; false is used", prose.Quote(value))
	}
	return yes
}

// notAnInterface says why no interface of a Linux host can have that name; "" if
// one can.
func notAnInterface(name string) string {
	const most = 15 // bytes, as the kernel has it
	switch {
	case name == "", name == ".", name == "..":
		return "is not an interface name"
	case len(name) > most:
		return "is too long for an interface name, which has at most 15 characters"
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 }):
		return "has a character that interface names cannot have"
	}
	return ""
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
				d.tell(key, Reasons.With(KeyShadowed, key, picked, ""))
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
			d.tell(span, Reasons.With(KeyShadowed, span, KeyCIDR+global, orNamespaceFirst))
		}
	}
	for key := range d.pools {
		if !used.Has(key) {
			delete(d.pools, key)
		}
	}
	for namespace, quota := range d.quotas {
		key := KeyQuota + namespace
		switch _, own := d.poolOf[namespace]; {
		case quota == lb.NothingNew: // which is told already
		case namespace == global && d.global == "":
			d.tell(key, Reasons.With(KeyUnknown, key, "there is neither cidr-global nor range-global"))
		case namespace != global && !own:
			d.tell(key, Reasons.With(KeyUnknown, key, "the namespace has no pool of its own; quota-global limits each namespace that uses the global pool"))
		}
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
		Key:            lb.PoolKey{Dialect: Name, Name: key},
		Created:        d.created,
		Descending:     d.desc,
		MayOverlap:     true,
		GivesByName:    true,
		SkipIPv4Ends:   true,
		Quota:          d.quotas[namespace],
		QuotaName:      "key " + KeyQuota + namespace + " in " + theConfigMap,
		Advertisements: []lb.Advertisement{{}},
	}
	if namespace == global {
		p.Except = d.namespaces()
	} else {
		p.Namespaces = sets.New(namespace)
	}
	v := readValue(d.pools[key], d.keepEnds)
	p.Spans, p.Withheld, p.DHCP, p.LinkLocal = v.spans, v.ends, v.leased, v.local
	if text := v.fault(); text != "" {
		r := lb.PoolInvalid.With(text)
		p.Invalid = &r
		d.tell(key, Reasons.With(KeyInvalid, key, text))
	}
	return p
}

func (d *draft) wrong(key, format string, args ...any) {
	d.tell(key, Reasons.With(KeyInvalid, key, fmt.Sprintf(format, args...)))
}
