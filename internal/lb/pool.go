package lb

import (
	"net/netip"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Dialect names the configuration format in which a pool is written. Each has its
// name beside its code.
type Dialect string

// Native is the dialect of our own kind Pool.
const Native Dialect = "native"

// PoolKey names a pool across all dialects.
type PoolKey struct {
	Dialect Dialect
	Name    string
}

func (k PoolKey) String() string {
	if k.Dialect == Native {
		return k.Name
	}
	return string(k.Dialect) + "/" + k.Name
}

// NothingNew is the Quota of a pool whose limit cannot be read: what is held stays,
// and no namespace gets more.
const NothingNew = -1

// Pool is a set of addresses, and the rules that say which Services may use them.
type Pool struct {
	Key     PoolKey
	Created time.Time // of two pools that overlap, the younger one is refused

	// Spans are the addresses, exclusions already taken out: sorted, disjoint,
	// not adjacent.
	Spans []netipx.IPRange
	// Excluded is kept only to be able to say why an address is not given.
	Excluded []netipx.IPRange
	// Withheld are addresses among Spans that are only assigned on request. A Service
	// that has or requests one uses this pool.
	Withheld []netip.Addr

	Descending   bool // hand out the highest free address first
	ManualOnly   bool // only for Services that ask for the pool or an address in it
	Disabled     bool // nothing new is handed out; what is held stays
	Exclusive    bool // an address is never shared between Services
	MayOverlap   bool // with other pools that may overlap, too
	SkipIPv4Ends bool // never hand out IPv4 addresses that end in .0 or .255
	LinkLocal    bool // hand out link-local addresses, too
	// SinglePool: both addresses of a Service are from this one pool, IPv4 is
	// published first, and a Service that may share takes the lowest address that
	// is free or that it can share. (From other pools it takes one that it can share
	// if there is any.) Such a pool reserves no address, and overlaps with no other.
	SinglePool bool
	// GivesByName: a Service that may have addresses anywhere may request one of
	// this pool, although the pool is not for it.
	GivesByName bool

	// Pinned pools, which somebody has set aside for certain Services, are tried
	// before those that are not.
	Pinned bool
	// Priority orders pools: lower first, 0 after all others; then by name.
	Priority int32
	// Quota limits how many addresses one namespace may hold; 0 is no limit. See
	// NothingNew.
	Quota int
	// QuotaName is the setting to raise, as it is read in a sentence.
	QuotaName string

	// Namespaces and NamespaceSelectors together say which namespaces the pool
	// is for; if Namespaces is nil and there is no selector, for all.
	Namespaces         sets.Set[string]
	NamespaceSelectors []labels.Selector
	// Except are namespaces that may not use the pool. It overrides the two above.
	Except sets.Set[string]
	// ServiceSelectors, any of which must match; if empty, all do.
	ServiceSelectors []labels.Selector

	// DHCP has the families of which the pool has no addresses of its own: they are
	// assigned by DHCP.
	DHCP [len(Families)]bool

	// Reserved addresses are for the named Service only.
	Reserved map[netip.Addr]types.NamespacedName

	// Advertisements select the nodes and interfaces that announce the pool's
	// addresses. Without any, the addresses are not announced.
	Advertisements []Advertisement

	// Keep is for how long established connections are kept after an address has moved to
	// another node; nil: as long as elsewhere.
	Keep *time.Duration

	// Routes select how the addresses are announced by BGP, independently of the
	// advertisements.
	Routes []Route

	// Labels of the pool, if advertisements select pools by them.
	Labels map[string]string

	// Object, if set, is the object that defines the pool. It gets an event if the
	// pool is refused because another pool has its addresses. Pools that are objects
	// themselves have a status instead.
	Object *Object

	// Invalid, if set, says why the pool hands out nothing.
	Invalid *Reason
}

// Admits says whether the pool's rules let the Service of r have an address of
// it, asked for or not.
func (p *Pool) Admits(r *Request) bool {
	return p.AdmitsNamespace(r) && (len(p.ServiceSelectors) == 0 || matchesAny(p.ServiceSelectors, r.Labels))
}

// AdmitsNamespace says whether the pool is for the namespace of r.
func (p *Pool) AdmitsNamespace(r *Request) bool {
	if p.Except.Has(r.Service.Namespace) {
		return false
	}
	if p.Namespaces == nil && len(p.NamespaceSelectors) == 0 {
		return true
	}
	return p.Namespaces.Has(r.Service.Namespace) || matchesAny(p.NamespaceSelectors, r.NamespaceLabels)
}

func matchesAny(selectors []labels.Selector, l labels.Set) bool {
	for _, s := range selectors {
		if s.Matches(l) {
			return true
		}
	}
	return false
}

// Contains says whether a is one of the pool's addresses.
func (p *Pool) Contains(a netip.Addr) bool { return spansContain(p.Spans, a) }

// Excludes says whether a would be one of the pool's but for its exclusions.
func (p *Pool) Excludes(a netip.Addr) bool { return spansContain(p.Excluded, a) }

func spansContain(spans []netipx.IPRange, a netip.Addr) bool {
	lo, hi := 0, len(spans)
	for lo < hi {
		mid := (lo + hi) / 2
		switch {
		case a.Less(spans[mid].From()):
			hi = mid
		case spans[mid].To().Less(a):
			lo = mid + 1
		default:
			return true
		}
	}
	return false
}
