package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// compareValues compares addresses and reasons as Go does.
var compareValues = cmp.Options{
	cmp.Comparer(func(x, y netip.Addr) bool { return x == y }),
	cmp.Comparer(func(x, y lb.Reason) bool { return x == y }),
}

func poolOf(name string, spans ...string) lb.Pool {
	var b netipx.IPSetBuilder
	for _, s := range spans {
		b.AddRange(span(s))
	}
	return lb.Pool{Key: poolKey(name), Spans: must(b.IPSet()).Ranges()}
}

func requestOf(name string, age int) lb.Request {
	n := serviceName(name)
	return lb.Request{Service: n, UID: types.UID(name), Created: time.Unix(int64(age), 0), Dialects: []lb.Dialect{lb.Native}, Families: []lb.Family{lb.IPv4}}
}

// A status that is behind does not undo a move that was made since.
func TestStatusThatIsBehind(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
	r := requestOf("a", 1)
	v, _ := a.Settle(r, nil)
	old := v.Addresses

	moved := r
	moved.Addresses = []netip.Addr{addr("192.0.2.3")}
	a.Settle(moved, old)
	v, _ = a.Settle(r, old) // it no longer asks for .3, but has it
	if got := prose.Addrs(v.Addresses); got != "192.0.2.3" {
		t.Errorf("has %s", got)
	}
	a.Settle(r, v.Addresses) // the status catches up
	v, _ = a.Settle(r, old)  // and then somebody really writes the old one
	if got := prose.Addrs(v.Addresses); got != "192.0.2.0" {
		t.Errorf("has %s", got)
	}
}

// A Service that asked for a lease, and no longer does, keeps what its status still
// has.
func TestLeaseThatIsNotWantedAnyMore(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
	r := requestOf("a", 1)
	v, _ := a.Settle(r, nil)
	old := v.Addresses

	leasing := r
	leasing.DHCP[lb.IPv4] = true
	if v, _ = a.Settle(leasing, old); len(v.Addresses) > 0 || v.Reason.Code != lb.WaitingForLease {
		t.Errorf("has %v: %s", v.Addresses, v.Reason)
	}
	if v, _ = a.Settle(r, old); !slices.Equal(v.Addresses, old) || v.Reason.Code != lb.Ready {
		t.Errorf("has %v: %s", v.Addresses, v.Reason)
	}
}

// The families of a Service that changes: a Service of the same age that had to
// leave an address cannot take it back from its neighbours through its status.
func TestNeighboursAreNotEvictedByAChange(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/32")})
	first, second := requestOf("first", 1), requestOf("second", 2)
	for _, r := range []*lb.Request{&first, &second} {
		r.ShareKey, r.Ports = "k", []lb.Port{{Protocol: "TCP", Number: uint16(r.Created.Unix())}}
		a.Settle(*r, nil)
	}
	first.ShareKey = ""
	for range 3 { // however often it is looked at with a status that is behind
		v, changed := a.Settle(first, []netip.Addr{addr("192.0.2.0")})
		if len(v.Addresses) > 0 || len(changed) > 0 || len(a.Contests()) > 0 {
			t.Fatalf("has %v, changed %v", v.Addresses, changed)
		}
	}
}

// The pools that were handed over stay as they were.
func TestPoolsAreNotChanged(t *testing.T) {
	pools := func() []lb.Pool {
		a, b := poolOf("a", "192.0.2.0/24", "2001:db8::/120"), poolOf("b", "198.51.100.0/30")
		a.SinglePool, a.SkipIPv4Ends, b.Pinned, b.Quota = true, true, true, 2
		b.Reserved = map[netip.Addr]types.NamespacedName{addr("198.51.100.1"): serviceName("s1")}
		return []lb.Pool{a, b}
	}
	a, given := New(), pools()
	a.SetPools(given)
	for i := range 20 {
		r := requestOf(fmt.Sprintf("s%d", i), i)
		r.Policy, r.Families, r.ShareKey = lb.FamilyPolicy(i%3), lb.Families[:], "k"
		a.Settle(r, nil)
	}
	ranges := cmp.Comparer(func(x, y netipx.IPRange) bool { return x == y })
	if d := cmp.Diff(pools(), given, compareValues, ranges); d != "" {
		t.Error(d)
	}
}

// With a thousand waiting, one address that is freed is looked at by one.
func TestOnlyTheOldestIsWoken(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
	for i := range 1004 {
		a.Settle(requestOf(fmt.Sprintf("s%04d", i), i), nil)
	}
	for i := range 4 {
		changed := a.Forget(serviceName(fmt.Sprintf("s%04d", i)))
		if want := []types.NamespacedName{serviceName(fmt.Sprintf("s%04d", i+4))}; !slices.Equal(changed, want) {
			t.Errorf("changed %v, want %v", changed, want)
		}
	}
	if n := a.CountByReason()[lb.PoolExhausted]; n != 996 {
		t.Errorf("%d still wait", n)
	}
	looked := 0
	for _, s := range a.services {
		if len(s.waits) > 0 {
			looked++
		}
	}
	if looked != a.waiters || looked != 996 {
		t.Errorf("%d wait, counted %d", looked, a.waiters)
	}
}

// The order of imports, and whether the pools come first or last, does not
// matter.
func TestImportOrder(t *testing.T) {
	pools := []lb.Pool{
		poolOf("a", "192.0.2.0-192.0.2.11", "2001:db8::/126"),
		poolOf("b", "192.0.2.12-192.0.2.15", "2001:db8:1::/125"),
		poolOf("metallb/c", "198.51.100.0/30"),
	}
	pools[0].Quota = 6
	pools[1].Reserved = map[netip.Addr]types.NamespacedName{addr("192.0.2.13"): serviceName("s07")}
	nodes := map[netip.Addr]string{addr("192.0.2.4"): "worker-1"}
	random := rand.New(rand.NewPCG(1, 2))
	type service struct {
		request   lb.Request
		published []netip.Addr
	}
	var services []service
	for i := range 40 {
		r := requestOf(fmt.Sprintf("%s/s%02d", []string{"shop", "web"}[i%2], i), random.IntN(10))
		r.Families = [][]lb.Family{{lb.IPv4}, {lb.IPv4, lb.IPv6}, {lb.IPv6}}[random.IntN(3)]
		r.Policy = lb.FamilyPolicy(random.IntN(3))
		r.Ports = []lb.Port{{Protocol: "TCP", Number: uint16(random.IntN(3))}}
		if random.IntN(2) == 0 {
			r.ShareKey = "k"
		}
		s := service{request: r}
		if random.IntN(2) == 0 {
			s.published = []netip.Addr{addr(fmt.Sprintf("192.0.2.%d", random.IntN(20)))}
		}
		if random.IntN(3) == 0 {
			s.published = append(s.published, addr(fmt.Sprintf("2001:db8::%d", random.IntN(6))))
		}
		if random.IntN(6) == 0 && r.Families[0] == lb.IPv4 {
			s.request.Addresses = []netip.Addr{addr(fmt.Sprintf("192.0.2.%d", random.IntN(16)))}
		}
		services = append(services, s)
	}
	verdicts := func(poolsLast bool) map[string]lb.Verdict {
		a := New()
		a.SetOwners(Owners{Nodes: nodes})
		if !poolsLast {
			a.SetPools(pools)
		}
		for _, s := range services {
			a.Import(s.request, s.published)
		}
		a.SettleAll()
		if poolsLast {
			a.SetPools(pools)
		}
		checkInvariants(t, a)
		all := map[string]lb.Verdict{}
		for _, s := range services {
			v, ok := a.Verdict(s.request.Service)
			if !ok {
				t.Fatalf("no verdict about %s", s.request.Service)
			}
			all[s.request.Service.String()] = v
		}
		return all
	}
	want := verdicts(false)
	for range 50 {
		random.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
		if d := cmp.Diff(want, verdicts(random.IntN(2) == 0), compareValues); d != "" {
			t.Fatalf("another order, another result:\n%s", d)
		}
	}
}

// A Service that goes on as it was, for a while, is told anew what it has when it
// asks again.
func TestReasonThatWasGivenIsNotKept(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
	r := requestOf("web", 1)
	before, _ := a.Settle(r, nil)
	for _, said := range []lb.Reason{lb.Rebuilt(lb.Ready, "", true), lb.Rebuilt(lb.Ready, "It has an address.", true)} {
		asIs := r
		asIs.Invalid = &said
		if v, _ := a.Settle(asIs, nil); v.Reason != said || len(v.Addresses) != 1 {
			t.Errorf("as it was: %v", v)
		}
		if v, _ := a.Settle(r, nil); v.Reason != before.Reason {
			t.Errorf("afterwards: %v", v)
		}
	}
}

// Nothing that was imported is given away before SettleAll.
func TestImportedIsHeldAtOnce(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/31")})
	a.Import(requestOf("old", 2), []netip.Addr{addr("192.0.2.0")})
	a.Import(requestOf("gone", 3), []netip.Addr{addr("192.0.2.1")})
	a.Forget(serviceName("gone"))
	if _, ok := a.Verdict(serviceName("old")); ok {
		t.Error("a verdict before SettleAll")
	}
	if v, _ := a.Settle(requestOf("new", 1), nil); prose.Addrs(v.Addresses) != "192.0.2.1" {
		t.Errorf("new has %v", v.Addresses)
	}
	if changed := a.SettleAll(); !slices.Equal(changed, []types.NamespacedName{serviceName("old")}) {
		t.Errorf("changed %v", changed)
	}
	if changed := a.SettleAll(); changed != nil {
		t.Errorf("changed %v", changed)
	}
}

// What everybody can write on a Service holds an address that nobody has, and never
// takes one from anybody: neither while the controller runs nor when it starts, be
// the Service as old as it may.
func TestAssertedNeverWins(t *testing.T) {
	victim := requestOf("victim", 5)
	forger := requestOf("forger", 1)
	forger.Evidence = lb.Asserted
	asIs := lb.Rebuilt(lb.Ready, "", true)
	forger.Invalid = &asIs // a Service that is left alone
	stolen := []netip.Addr{addr("192.0.2.0")}

	running := New()
	running.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/31")})
	running.Settle(victim, nil)
	running.Settle(forger, stolen)
	if contests := running.Contests(); contests != nil {
		t.Errorf("while running: %v", contests)
	}

	starting := New()
	starting.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/31")})
	starting.Import(forger, stolen)
	starting.Import(victim, stolen)
	starting.SettleAll()

	for name, a := range map[string]*Allocator{"running": running, "starting": starting} {
		if v, _ := a.Verdict(victim.Service); !slices.Equal(v.Addresses, stolen) || v.Reason.Code != lb.Ready {
			t.Errorf("%s: the victim has %v", name, v)
		}
		if v, _ := a.Verdict(forger.Service); len(v.Addresses) > 0 {
			t.Errorf("%s: the forger has %v", name, v.Addresses)
		}
	}
}

// Of two notes on one address, the younger one counts, and what cannot be put back
// counts more than any note; be the Service older or not, and whatever comes first.
func TestNotesAreContested(t *testing.T) {
	at := func(second int64) time.Time {
		if second == 0 {
			return time.Time{}
		}
		return time.Unix(second, 0)
	}
	for name, test := range map[string]struct {
		older, younger int64
		want           string
	}{
		"an old note put back":          {1, 2, "younger"},
		"the younger Service's is old":  {2, 1, "older"},
		"a note against our own status": {5, 0, "younger"},
		"our own status against a note": {0, 5, "older"},
		"two statuses":                  {0, 0, "older"},
		"two notes of one moment":       {7, 7, "older"},
	} {
		old, young := requestOf("older", 1), requestOf("younger", 2)
		old.Noted, young.Noted = at(test.older), at(test.younger)
		x := []netip.Addr{addr("192.0.2.7")}
		live := func(first, second lb.Request) *Allocator {
			a := New()
			a.Settle(first, x)
			a.Settle(second, x)
			return a
		}
		imported := New()
		imported.Import(old, x)
		imported.Import(young, x)
		imported.SettleAll()
		for _, a := range []*Allocator{live(old, young), live(young, old), imported} {
			if u := a.held[x[0]]; u == nil || u.req.Service.Name != test.want {
				t.Errorf("%s: %v has it", name, u)
			}
		}
	}
}

// A Service that gets a lease, but not the address of the other family that it needs,
// gives the lease back. With a quota that must end, too.
func TestLeaseWithoutTheOtherFamily(t *testing.T) {
	a := New()
	pool := poolOf("edge", "192.0.2.0/30")
	pool.Quota = 2
	a.SetPools([]lb.Pool{pool})
	r := requestOf("a", 1)
	r.Families, r.Policy = []lb.Family{lb.IPv6, lb.IPv4}, lb.RequireDualStack
	r.DHCP[lb.IPv4], r.Leased = true, []netip.Addr{addr("198.51.100.4")}
	if v, _ := a.Settle(r, nil); len(v.Addresses) > 0 {
		t.Errorf("has %s", prose.Addrs(v.Addresses))
	}
	if n := len(a.pools[0].perNamespace); n > 0 {
		t.Errorf("%d namespaces are charged", n)
	}
}
