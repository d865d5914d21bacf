package controller

import (
	"encoding/json"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// The patch of a Service names its pool in both annotations, takes off what is
// not so any more, and nothing else.
func TestAnnotationsOfPools(t *testing.T) {
	lan, edge := lb.PoolKey{Dialect: lb.MetalLB, Name: "lan"}, lb.PoolKey{Dialect: lb.Native, Name: "edge"}
	const ours, theirs = "fairlead.io/allocated-from", "metallb.io/ip-allocated-from-pool"
	for name, test := range map[string]struct {
		has   map[string]string
		pools []lb.PoolKey
		want  map[string]any
	}{
		"new, of MetalLB's":       {pools: []lb.PoolKey{lan}, want: map[string]any{ours: "metallb/lan", theirs: "lan"}},
		"new, of ours":            {pools: []lb.PoolKey{edge}, want: map[string]any{ours: "edge"}},
		"from MetalLB":            {has: map[string]string{theirs: "lan"}, pools: []lb.PoolKey{lan}, want: map[string]any{ours: "metallb/lan"}},
		"from MetalLB, no longer": {has: map[string]string{theirs: "lan"}, pools: []lb.PoolKey{edge}, want: map[string]any{ours: "edge", theirs: nil}},
		"no address any more":     {has: map[string]string{ours: "metallb/lan", theirs: "lan"}, want: map[string]any{ours: nil, theirs: nil}},
		"empty by hand":           {has: map[string]string{theirs: ""}, want: map[string]any{theirs: nil}},
		"as it should be":         {has: map[string]string{ours: "metallb/lan", theirs: "lan", "other": "x"}, pools: []lb.PoolKey{lan}},
		"never ours":              {has: map[string]string{"other": "x"}},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: test.has}}
		if diff := cmp.Diff(test.want, annotations(s, lb.Verdict{Pools: test.pools})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A Service that MetalLB has left is adopted with one patch, after which nothing
// is left to say; releasing it takes off all that names a pool.
func TestAdoptedServiceIsWrittenOnce(t *testing.T) {
	vip := corev1.LoadBalancerIPModeVIP
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metallb.AnnotationAllocatedFrom: "lan"}}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: &vip}}
	v := lb.Verdict{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, Pools: []lb.PoolKey{{Dialect: lb.MetalLB, Name: "lan"}}, Reason: lb.Ready.Say("192.0.2.7", "pool lan")}
	var patch struct {
		Metadata struct{ Annotations map[string]string }
		Status   struct{ Conditions []metav1.Condition }
	}
	raw := statusPatch(s, v, "", time.Now())
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "loadBalancer") {
		t.Errorf("what it has is written again: %s", raw)
	}
	for key, value := range patch.Metadata.Annotations {
		s.Annotations[key] = value
	}
	s.Status.Conditions = patch.Status.Conditions
	if again := statusPatch(s, v, "", time.Now()); again != nil {
		t.Errorf("a second write: %s", again)
	}
	if !attested(s) {
		t.Error("the addresses are not known as ours")
	}
	if release := string(releasePatch(s)); !strings.Contains(release, `"metallb.io/ip-allocated-from-pool":null`) || !strings.Contains(release, `"fairlead.io/allocated-from":null`) {
		t.Errorf("released with %s", release)
	}
}

func TestEventsInMetalLBsWords(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fd00::7")}
	lan := []lb.PoolKey{{Dialect: lb.MetalLB, Name: "lan"}}
	edge := []lb.PoolKey{{Dialect: lb.Native, Name: "edge"}}
	for name, test := range map[string]struct {
		voice                   lb.Dialect
		v                       lb.Verdict
		reason, source, message string
	}{
		"allocated": {voice: lb.Native, v: lb.Verdict{Addresses: addresses, Pools: lan, Reason: lb.Reason{Code: lb.Ready, Text: "It has."}},
			reason: "IPAllocated", source: "metallb-controller", message: `Assigned IP ["192.0.2.7" "fd00::7"]. It has.`},
		"from a pool of ours": {voice: lb.MetalLB, v: lb.Verdict{Addresses: addresses, Pools: edge, Reason: lb.Reason{Code: lb.Ready, Text: "It has."}},
			reason: "Ready", source: "fairlead", message: "It has."},
		"nothing, asked of MetalLB": {voice: lb.MetalLB, v: lb.Verdict{Reason: lb.Reason{Code: lb.PoolExhausted, Text: "No available IPs: full."}},
			reason: "AllocationFailed", source: "metallb-controller", message: `Failed to allocate IP for "shop/web": no available IPs: full.`},
		"nothing, asked of us": {voice: lb.Native, v: lb.Verdict{Reason: lb.Reason{Code: lb.PoolExhausted, Text: "Full."}},
			reason: "PoolExhausted", source: "fairlead", message: "Full."},
		"what MetalLB has no word for": {voice: lb.MetalLB, v: lb.Verdict{Addresses: addresses, Reason: lb.Reason{Code: lb.OutOfPool, Text: "Out."}},
			reason: "OutOfPool", source: "metallb-controller", message: "Out."},
	} {
		r := &lb.Request{Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Voice: test.voice}
		voice := new(services).voice(r, test.v)
		e := waitingEvent{voice: voice, reason: inVoice(voice, r, test.v)}.event()
		if e.Reason != test.reason || e.Source.Component != test.source || e.Message != test.message {
			t.Errorf("%s: %s from %s: %s", name, e.Reason, e.Source.Component, e.Message)
		}
	}
}

// Where all pools are MetalLB's, a Service that has nothing is told so in its
// words, whichever dialect its class has first.
func TestVoiceFollowsThePools(t *testing.T) {
	lan := lb.Pool{Key: lb.PoolKey{Dialect: lb.MetalLB, Name: "lan"}}
	edge := lb.Pool{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}}
	for _, test := range []struct {
		pools []lb.Pool
		uses  []lb.Dialect
		want  lb.Dialect
	}{
		{pools: nil, uses: []lb.Dialect{lb.Native, lb.MetalLB}, want: lb.Native},
		{pools: []lb.Pool{lan}, uses: []lb.Dialect{lb.Native, lb.MetalLB}, want: lb.MetalLB},
		{pools: []lb.Pool{lan}, uses: []lb.Dialect{lb.Native}, want: lb.Native},
		{pools: []lb.Pool{lan, edge}, uses: []lb.Dialect{lb.Native, lb.MetalLB}, want: lb.Native},
	} {
		c := &services{ledger: newLedger(func([]types.NamespacedName) {})}
		c.ledger.setPools(test.pools)
		if got := c.voice(&lb.Request{Dialects: test.uses, Voice: test.uses[0]}, lb.Verdict{}); got != test.want {
			t.Errorf("%v, pools %v: %s", test.uses, test.pools, got)
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
		"another key":     {change: func(r *lb.Request) { r.ShareKey = "b" }, want: "its new sharing key"},
		"other families":  {change: func(r *lb.Request) { r.Families = []lb.Family{lb.IPv6} }, want: "it requests other IP families"},
		"to move":         {change: func(r *lb.Request) { r.Reallocate = true }, now: other, want: "it requests a move"},
		"lost it":         {change: func(*lb.Request) {}, now: other},
		"keeps it":        {change: func(r *lb.Request) { r.ShareKey = "b" }, now: has},
		"gets another":    {change: func(r *lb.Request) { r.Policy = lb.PreferDualStack }, now: append(other, has...)},
	} {
		c := &services{events: newEvents(nil, nil, nil)}
		m := &memo{written: "7", published: has, asked: wishOf(&before)}
		after := before
		test.change(&after)
		c.tellReleased(&corev1.Service{}, m, &after, lb.Verdict{Addresses: test.now})
		w, told := c.events.next()
		if told != (test.want != "") || !strings.Contains(w.reason.Text, test.want) {
			t.Errorf("%s: %v %s", name, told, w.reason.Text)
		}
		if told && !strings.Contains(w.reason.Text, "192.0.2.7:") {
			t.Errorf("%s: %s", name, w.reason.Text)
		}
	}
}

func span(text string) netipx.IPRange {
	s, err := lb.ParseSpan(text)
	if err != nil {
		panic(err)
	}
	return s
}

// ledgerOf has pools and Services; each Service takes one address.
func ledgerOf(services int, pools ...lb.Pool) *ledger {
	l := newLedger(func([]types.NamespacedName) {})
	l.setPools(pools)
	for i := range services {
		l.settle(lb.Request{Service: types.NamespacedName{Namespace: "default", Name: string(rune('a' + i))}, Families: []lb.Family{lb.IPv4},
			Dialects: []lb.Dialect{lb.MetalLB}}, nil)
	}
	return l
}

// More addresses than a number can say are never negative, in whatever order.
func TestNumbersOfHugePools(t *testing.T) {
	l := ledgerOf(2, lb.Pool{Key: lb.PoolKey{Dialect: lb.MetalLB, Name: "lan"}, Spans: []netipx.IPRange{span("192.0.2.0/30"), span("fd00::/48"), span("fd02::/16")}},
		lb.Pool{Key: lb.PoolKey{Dialect: lb.MetalLB, Name: "none"}, Invalid: &lb.Reason{Code: lb.PoolInvalid}, Spans: []netipx.IPRange{span("198.51.100.0/24")}})
	usage := map[string]ipam.PoolUsage{}
	for _, u := range l.usage() {
		usage[u.Key.Name] = u
	}
	want := numbers{"assignedIPv4": 2, "availableIPv4": 2, "assignedIPv6": 0, "availableIPv6": math.MaxInt64}
	if diff := cmp.Diff(want, poolNumbers(usage["lan"])); diff != "" {
		t.Error(diff)
	}
	want = numbers{"assignedIPv4": 0, "availableIPv4": 0, "assignedIPv6": 0, "availableIPv6": 0}
	if diff := cmp.Diff(want, poolNumbers(usage["none"])); diff != "" {
		t.Error(diff)
	}
}

// MetalLB's alerts compare these: a pool is full when nothing can be had of it,
// and one without an address is not.
func TestMetricsOfMetalLB(t *testing.T) {
	key := func(name string) lb.PoolKey { return lb.PoolKey{Dialect: lb.MetalLB, Name: name} }
	l := ledgerOf(2,
		lb.Pool{Key: key("a"), Spans: []netipx.IPRange{span("192.0.2.0/31"), span("192.0.2.9"), span("fd00::/64")}},
		lb.Pool{Key: key("empty"), Invalid: &lb.Reason{Code: lb.PoolInvalid}},
		lb.Pool{Key: lb.PoolKey{Dialect: lb.Native, Name: "ours"}, Spans: []netipx.IPRange{span("198.51.100.0/24")}})
	l.setNodes(map[netip.Addr]string{netip.MustParseAddr("192.0.2.9"): "node1"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metallbCollector{ledger: l, loaded: func() bool { return true }, stale: func() bool { return false }})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.Gauge.GetValue()
		}
	}
	want := map[string]float64{
		"metallb_allocator_addresses_total a": math.MaxInt64 + 2., "metallb_allocator_addresses_in_use_total a": 2,
		"metallb_allocator_ipv4_addresses_total a": 2, "metallb_allocator_ipv4_addresses_in_use_total a": 2,
		"metallb_allocator_ipv6_addresses_total a": math.MaxInt64, "metallb_allocator_ipv6_addresses_in_use_total a": 0,
		"metallb_k8s_client_config_loaded_bool": 1, "metallb_k8s_client_config_stale_bool": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Many long complaints fit into a table, and a state that says so already is not
// changed.
func TestConfigurationState(t *testing.T) {
	var found []metallb.Problem
	for range 20 {
		found = append(found, metallb.Problem{Kind: "IPAddressPool", Object: types.NamespacedName{Namespace: "metallb-system", Name: "x"},
			Reason: lb.PoolInvalid.With(strings.Repeat("ä", 300))})
	}
	found = append(found, metallb.Problem{Kind: "L2Advertisement", Reason: metallb.Reasons.With(metallb.AdvertisementReady, "all pools")})
	text := summary(found)
	if !strings.HasSuffix(text, "And 15 more.") {
		t.Errorf("summary is %s", text)
	}
	now := time.Now()
	s := stateOf(text, nil, now)
	if s.Result != metallbapi.Invalid || len(s.ErrorSummary) > stateSummaryMost || !json.Valid([]byte(`"`+s.ErrorSummary+`"`)) {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(s, stateOf(text, s.Conditions, now.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	fine := stateOf(summary(found[20:]), s.Conditions, now)
	if c := fine.Conditions[0]; fine.Result != metallbapi.Valid || fine.ErrorSummary != "" || c.Type != "poolReconcilerValid" || c.Reason != "Reconciled" || c.Message != "" {
		t.Errorf("%+v", fine)
	}
}

// An object is told of once per change, also if its status could not be written,
// or its answer was lost, in between.
func TestObjectsAreToldOncePerChange(t *testing.T) {
	events := newEvents(nil, nil, nil)
	told := &told{events: events}
	about := corev1.ObjectReference{Kind: "IPAddressPool", Name: "lan", UID: "u"}
	fine, bad, worse := lb.PoolReady.With(), lb.PoolInvalid.With("this"), lb.PoolInvalid.With("that")
	round := func(has, now lb.Reason, written bool) (said lb.Reason) {
		told.begin()
		defer told.end()
		var conditions []metav1.Condition
		if has.Code != "" {
			conditions = withReady(nil, has, time.Now())
		}
		told.meet(about.UID, conditions)
		if written {
			told.tell(about, lb.MetalLB, now)
		}
		w, _ := events.next()
		return w.reason
	}
	var nothing lb.Reason
	for i, step := range []struct {
		has, now lb.Reason
		written  bool
		want     lb.Reason
	}{
		{nothing, fine, true, nothing}, // a new one that is fine
		{fine, fine, true, nothing},
		{fine, bad, false, nothing},    // the answer is lost,
		{bad, bad, true, bad},          // though it was written
		{bad, bad, true, nothing},      // once
		{bad, worse, true, worse},      // a change
		{worse, fine, true, fine},      // all is well again
		{nothing, fine, true, nothing}, // kinds without conditions
	} {
		if got := round(step.has, step.now, step.written); got != step.want {
			t.Errorf("step %d: told %v, want %v", i, got, step.want)
		}
	}
	told.before = nil // another process
	if got := round(bad, bad, true); got != nothing {
		t.Errorf("a restart repeats %v", got)
	}
	told.before = nil
	if got := round(fine, bad, true); got != bad {
		t.Errorf("what changed while nobody looked is told as %v", got)
	}
}
