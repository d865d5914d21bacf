package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Allocator has all pools, all Services and the addresses that they hold. Use New.
type Allocator struct {
	evaluating *service // nil if none is being evaluated
	pools      []*pool  // in the order in which they are tried
	byKey      map[lb.PoolKey]*pool
	cover      cover

	// Whose addresses are that are not Services'. External IPs are what Services name
	// in their specs.
	owned    map[netip.Addr]owned
	networks networks
	external map[netip.Addr][]types.NamespacedName
	// clusterIPs has the Services whose ClusterIPs they are. kube-proxy leads their traffic
	// elsewhere, so nobody can have them.
	clusterIPs map[netip.Addr]string

	words map[lb.Dialect]lb.Words

	quotas         bool // any pool has one
	hasSinglePools bool
	leasing        bool // any pool has addresses that a DHCP server gives
	loners         int  // Services that are choosy

	// What pools reserve, by address and by Service.
	reserved    map[netip.Addr]reservation
	reservedFor map[types.NamespacedName][]netip.Addr

	// leaving are Services that have lost an address and may still be reached there.
	leaving map[netip.Addr][]*service

	services map[types.NamespacedName]*service
	extras   map[extraKey]*service
	extrasOf map[types.NamespacedName][]netip.Addr
	held     map[netip.Addr]*service // the first of its users
	shared   map[group]*offers

	// Services that wait for a given address, and to join a group, by their first
	// port. Those that wait for any address of a pool, or for its quota, are in pool.
	waitAddress map[netip.Addr]*queue
	waitGroup   map[group]map[lb.Port]*queue
	waiters     int

	imports   []imported // not yet looked at
	unsettled []*service // imported, but without a verdict
	contests  []Contest

	changes int // counts what anybody took or left

	// What an operation has left to do, empty between operations.
	notes   []note
	evicted []*service
	touched []touch
	scratch []*pool
	split   [][]*pool
}

// service is one Service, or one of several addresses of it: what it asks for, what it
// has, and what was answered.
type service struct {
	req   lb.Request
	extra netip.Addr // valid of one of several: see extras.go
	ports portSet    // of req
	has   [len(lb.Families)]netip.Addr
	// rank is the evidence that s has what it has. What the allocator gave itself
	// is proven.
	rank [len(lb.Families)]lb.Evidence
	// noted is when that evidence was written, as lb.Request has it, in milliseconds.
	noted   [len(lb.Families)]int64
	next    [len(lb.Families)]*service // with the same address
	verdict lb.Verdict
	waits   []*queue
	// granted is the pool that was asked for when the addresses were given. As
	// long as the Service asks for the same one, an address outside of it is
	// the pool's doing and kept; else the Service wants to move.
	granted string
	// lost are the addresses that s had before, or claimed in vain, and may still
	// publish because its status is behind.
	lost []netip.Addr
	// leaving are those of lost that nobody else gets yet.
	leaving []netip.Addr
	// pair is what was told when s last had two, in that order. Where both are out
	// of pool, no pool says any more which one is first.
	pair   [len(lb.Families)]netip.Addr
	leased [len(lb.Families)]bool // the address is assigned by DHCP
	// charged is the pool whose quota counts that address.
	charged [len(lb.Families)]*pool
	settled bool // has a verdict
	refused bool // its verdict has the reason of its request
	lacking bool // has not all that it asks for
	touched bool
	gone    bool
}

// asks takes r for the request of s.
func (s *service) asks(r *lb.Request) {
	if !slices.Equal(s.req.Ports, r.Ports) {
		s.ports = newPortSet(r.Ports)
	}
	s.req = *r
}

// loses notes that s has not got x, whatever it publishes.
func (s *service) loses(x netip.Addr) {
	if !slices.Contains(s.lost, x) {
		s.lost = append(s.lost, x)
	}
}

// older is the order in which Services are served. The name decides only where
// somebody gives two Services one UID.
func older(s, t *service) bool { return byAge(s, t) < 0 }

func byAge(s, t *service) int {
	switch {
	case s == t:
		return 0
	case s.req.Older(&t.req):
		return -1
	case t.req.Older(&s.req):
		return 1
	}
	return cmp.Or(
		strings.Compare(s.req.Service.Namespace, t.req.Service.Namespace),
		strings.Compare(s.req.Service.Name, t.req.Service.Name),
		s.extra.Compare(t.extra))
}

// New returns an Allocator without pools.
func New() *Allocator {
	return &Allocator{
		owned:       map[netip.Addr]owned{},
		external:    map[netip.Addr][]types.NamespacedName{},
		clusterIPs:  map[netip.Addr]string{},
		leaving:     map[netip.Addr][]*service{},
		services:    map[types.NamespacedName]*service{},
		extras:      map[extraKey]*service{},
		extrasOf:    map[types.NamespacedName][]netip.Addr{},
		held:        map[netip.Addr]*service{},
		shared:      map[group]*offers{},
		waitAddress: map[netip.Addr]*queue{},
		waitGroup:   map[group]map[lb.Port]*queue{},
	}
}

// settleEntry decides about the Service of r, or about its extra for x if x is valid.
func (a *Allocator) settleEntry(r lb.Request, x netip.Addr, published []netip.Addr) (v lb.Verdict, changed []types.NamespacedName) {
	a.claimImports()
	s := a.enter(&r, x)
	a.left(s, published)
	// What it publishes may be fine after that, or what it lacks may be told better. Each
	// further look is worth it only if an address was heeded and stayed.
	for range len(published) + 2 {
		others := a.adoptPublished(s, published)
		before := a.changes
		a.evaluate(s)
		a.wake(nil)
		if a.changes == before || !others && !s.lacking {
			break
		}
	}
	return s.verdict, a.finish(s)
}

// enter returns the entry of r's Service, or its extra for x if x is valid, with r as
// its request.
func (a *Allocator) enter(r *lb.Request, x netip.Addr) *service {
	s := a.entry(r.Service, x)
	if s != nil && s.req.UID != r.UID {
		a.forgetEntry(r.Service, x)
		s = nil
	}
	switch {
	case s == nil:
		s = &service{req: *r, extra: x, ports: newPortSet(r.Ports), granted: grantedTo(r)}
		a.setEntry(r.Service, x, s)
		a.count(nil, r)
	case sharesLike(&s.req, r) && s.req.Created.Equal(r.Created):
		s.asks(r)
	default:
		a.unwait(s) // queues are sorted by age
		a.reshare(s, r)
	}
	return s
}

// grantedTo returns the pool that the Service of r, seen for the first time,
// asked for when it got what it publishes.
func grantedTo(r *lb.Request) string {
	for _, name := range r.From {
		if r.Pool != "" && name != r.Pool {
			return name
		}
	}
	return r.Pool
}

func (a *Allocator) forgetEntry(name types.NamespacedName, x netip.Addr) {
	s := a.entry(name, x)
	if s == nil {
		return
	}
	s.gone = true
	a.unwait(s)
	a.dropEntry(name, x)
	a.count(s, nil)
	for _, f := range lb.Families {
		if was := s.has[f]; was.IsValid() {
			a.release(s, f)
			a.note(s, was)
		}
	}
	a.left(s, []netip.Addr{})
	a.wake(nil)
}

// count notes that the request of s, which may be nil, becomes r, which may be.
func (a *Allocator) count(s *service, r *lb.Request) {
	if s != nil && choosy(&s.req) {
		a.loners--
	}
	if r != nil && choosy(r) {
		a.loners++
	}
}

// reconsiderAll looks at all Services again after a change of pools.
func (a *Allocator) reconsiderAll() {
	a.waiters = 0
	a.waitAddress = map[netip.Addr]*queue{}
	a.waitGroup = map[group]map[lb.Port]*queue{}
	var lacking []*service
	for s := range a.entries() {
		// Only a Service that lacks something, or may move, can take anything; for all
		// others the order does not matter.
		s.waits = nil
		switch {
		case !s.settled:
		case s.lacking || s.req.Reallocate:
			lacking = append(lacking, s)
		default:
			a.evaluate(s)
		}
	}
	slices.SortFunc(lacking, byAge)
	a.wake(lacking)
}

// touch is a verdict as it was before the operation.
type touch struct {
	service *service
	was     lb.Verdict
}

// conclude answers v about s.
func (a *Allocator) conclude(s *service, v lb.Verdict) {
	if !s.touched {
		s.touched = true
		a.touched = append(a.touched, touch{s, s.verdict})
	}
	s.verdict, s.settled = v, true
}

// finish ends an operation and returns whose verdict it changed, except that of
// subject.
func (a *Allocator) finish(subject *service) (changed []types.NamespacedName) {
	var list []*service
	for _, t := range a.touched {
		s := t.service
		s.touched = false
		if s != subject && !s.gone && !sameVerdict(&t.was, &s.verdict) {
			list = append(list, s)
		}
	}
	clear(a.touched)
	a.touched = a.touched[:0]
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, byAge)
	changed = make([]types.NamespacedName, 0, len(list))
	for _, s := range list {
		if n := len(changed); n == 0 || changed[n-1] != s.req.Service { // a Service and its extras follow each other
			changed = append(changed, s.req.Service)
		}
	}
	return changed
}

func sameVerdict(v, w *lb.Verdict) bool {
	return v.Reason == w.Reason && sameButReason(v, w)
}
