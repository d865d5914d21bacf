package controller

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

func TestEventsInMetalLBsWords(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fd00::7")}
	lan := []lb.PoolKey{{Dialect: metallb.Name, Name: "lan"}}
	edge := []lb.PoolKey{{Dialect: lb.Native, Name: "edge"}}
	for name, test := range map[string]struct {
		voice                   lb.Dialect
		v                       lb.Verdict
		reason, source, message string
	}{
		"allocated": {voice: lb.Native, v: lb.Verdict{Addresses: addresses, Pools: lan, Reason: lb.Reason{Code: lb.Ready, Text: "It has."}},
			reason: "IPAllocated", source: "metallb-controller", message: `Assigned IP ["192.0.2.7" "fd00::7"]. It has.`},
		"from a pool of ours": {voice: metallb.Name, v: lb.Verdict{Addresses: addresses, Pools: edge, Reason: lb.Reason{Code: lb.Ready, Text: "It has."}},
			reason: "Ready", source: "fairlead", message: "It has."},
		"nothing, asked of MetalLB": {voice: metallb.Name, v: lb.Verdict{Reason: lb.Reason{Code: lb.PoolExhausted, Text: "No available IPs: full."}},
			reason: "AllocationFailed", source: "metallb-controller", message: `Failed to allocate IP for "shop/web": no available IPs: full.`},
		"nothing, asked of us": {voice: lb.Native, v: lb.Verdict{Reason: lb.Reason{Code: lb.PoolExhausted, Text: "Full."}},
			reason: "PoolExhausted", source: "fairlead", message: "Full."},
		"what MetalLB has no word for": {voice: metallb.Name, v: lb.Verdict{Addresses: addresses, Reason: lb.Reason{Code: lb.OutOfPool, Text: "Out."}},
			reason: "OutOfPool", source: "metallb-controller", message: "Out."},
	} {
		c := &services{common: commonOf(classesOf(config.Default(), nil), nil, nil)}
		w := &lb.Want{Verdict: test.v, Request: lb.Request{Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Voice: test.voice}}
		c.tell(w, &memo{}, &lb.Outcome{Reason: test.v.Reason}, test.v.Reason)
		waiting, _ := c.events.next()
		e := waiting.object()
		if e.Reason != test.reason || e.Source.Component != test.source || e.Message != test.message {
			t.Errorf("%s: %s from %s: %s", name, e.Reason, e.Source.Component, e.Message)
		}
	}
}

// Where all pools are MetalLB's, a Service that has nothing is told so in its
// words, whichever dialect its class has first.
func TestVoiceFollowsThePools(t *testing.T) {
	lan := lb.Pool{Key: lb.PoolKey{Dialect: metallb.Name, Name: "lan"}}
	edge := lb.Pool{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}}
	theirs := lb.Pool{Key: lb.PoolKey{Dialect: kubevip.Name, Name: "cidr-global"}}
	for _, test := range []struct {
		pools []lb.Pool
		uses  []lb.Dialect
		want  lb.Dialect
	}{
		{pools: nil, uses: []lb.Dialect{lb.Native, metallb.Name}, want: lb.Native},
		{pools: []lb.Pool{lan}, uses: []lb.Dialect{lb.Native, metallb.Name}, want: metallb.Name},
		{pools: []lb.Pool{lan}, uses: []lb.Dialect{lb.Native}, want: lb.Native},
		{pools: []lb.Pool{lan, edge}, uses: []lb.Dialect{lb.Native, metallb.Name}, want: lb.Native},
		{pools: []lb.Pool{theirs}, uses: []lb.Dialect{lb.Native, kubevip.Name}, want: lb.Native}, // who does not speak alone
		{pools: []lb.Pool{theirs}, uses: []lb.Dialect{kubevip.Name, lb.Native}, want: kubevip.Name},
	} {
		c := commonOf(classesOf(config.Default(), nil), nil, nil)
		c.ledger.setPools(test.pools)
		if got := c.voice(&lb.Request{Dialects: test.uses, Voice: test.uses[0]}, &lb.Verdict{}); got != c.classes.voice(test.want) {
			t.Errorf("%v, pools %v: %T", test.uses, test.pools, got)
		}
	}
}

// What a Service gives back is told if it asks for something else than when it
// got it, and not if it lost it to another one.
func TestGivenBackAddressesAreTold(t *testing.T) {
	has := []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	other := []netip.Addr{netip.MustParseAddr("192.0.2.8")}
	before := lb.Request{Families: []lb.Family{lb.IPv4}, Pool: "lan", ShareKey: "a", Addresses: has}
	for name, test := range map[string]struct {
		change func(*lb.Request)
		now    []netip.Addr
		want   string
	}{
		"another address": {change: func(r *lb.Request) { r.Addresses = other }, now: other, want: "it requests another address"},
		"another pool":    {change: func(r *lb.Request) { r.Pool, r.Addresses = "edge", nil }, now: other, want: "it requests another pool"},
		"another key":     {change: func(r *lb.Request) { r.ShareKey = "b" }, want: "its new sharing key, ports or traffic policy do not fit there"},
		"other families":  {change: func(r *lb.Request) { r.Families = []lb.Family{lb.IPv6} }, want: "it requests other IP families"},
		"to move":         {change: func(r *lb.Request) { r.Reallocate = true }, now: other, want: "it requests a move"},
		"lost it":         {change: func(*lb.Request) {}, now: other},
		"keeps it":        {change: func(r *lb.Request) { r.ShareKey = "b" }, now: has},
		"gets another":    {change: func(r *lb.Request) { r.Policy = lb.PreferDualStack }, now: append(other, has...)},
	} {
		c := &services{common: commonOf(classesOf(config.Default(), nil), nil, nil)}
		m := &memo{written: "7", published: has, asked: askedOf(&before)}
		w := &lb.Want{Request: before, Verdict: lb.Verdict{Addresses: test.now}}
		test.change(&w.Request)
		c.tellReleased(w, m, &lb.Outcome{Ingress: []lb.Ingress{}})
		e, told := c.events.next()
		if told != (test.want != "") || !strings.Contains(e.event.Message, test.want) {
			t.Errorf("%s: %v %s", name, told, e.event.Message)
		}
		if told && !strings.Contains(e.event.Message, "192.0.2.7:") {
			t.Errorf("%s: %s", name, e.event.Message)
		}
	}
}

// That a Service uses annotations under their old names is told with the first news
// of it, and not again: not after a restart, and not when it is deleted.
func TestOldAnnotationsAreToldWithNews(t *testing.T) {
	s := serviceOf("web", "", true, "192.0.2.7")
	s.Annotations = map[string]string{"metallb.universe.tf/address-pool": "lan"}
	c := &services{common: commonOf(classesOf(config.Default(), nil), nil, nil)}
	w := &lb.Want{Service: *kubeapi.Service(s), Request: lb.Request{Dialects: []lb.Dialect{metallb.Name}}}
	m := c.memos.of(&w.Service, nil, time.Now())
	c.tell(w, m, &lb.Outcome{}, w.Service.Says.Reason)
	if got := told(c.events); len(got) > 0 {
		t.Errorf("after a restart, told %q", got)
	}
	w.Gone = true
	c.tell(w, m, &lb.Outcome{}, full)
	if got := told(c.events); len(got) != 1 {
		t.Errorf("as it goes, told %q", got)
	}
	w.Gone = false
	for _, want := range []int{2, 0} {
		c.tell(w, m, &lb.Outcome{}, fine)
		if got := told(c.events); len(got) != want {
			t.Errorf("told %q", got)
		}
	}
}

// That two Services had one address is told in the words of the pool that it is from,
// whatever the class has first.
func TestContestsAreToldInTheWordsOfThePool(t *testing.T) {
	one, two := serviceOf("one", "", false), serviceOf("two", "", false)
	contest := ipam.Contest{Address: netip.MustParseAddr("192.0.2.7"), Winner: types.NamespacedName{Namespace: "shop", Name: "one"}, Loser: types.NamespacedName{Namespace: "shop", Name: "two"}}
	for from, want := range map[lb.Dialect]string{metallb.Name: metallb.Component, lb.Native: component, "": component} {
		c := commonOf(classesOf(config.Default(), nil), objectsOf(t, one, two), nil)
		c.tellContest(t.Context(), contest, from)
		for range 2 {
			if w, ok := c.events.next(); !ok || w.object().Source.Component != want {
				t.Errorf("of dialect %q: told by %s", from, w.object().Source.Component)
			}
		}
	}
}
