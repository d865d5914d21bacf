package metallb

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

type words = map[string]string

// asksFor is what annotations ask for, after what our own have asked for.
func asksFor(annotations words, r lb.Request) lb.Request {
	if r.Families == nil {
		r.Families = []lb.Family{lb.IPv4}
	}
	if r.Voice == "" {
		r.Voice = lb.Native
	}
	if r.Dialects == nil {
		r.Dialects = []lb.Dialect{lb.Native, Name, "kube-vip"}
	}
	(&Reading{}).Amend(&r, &lb.Service{Annotations: annotations}, compat.Class{})
	return r
}

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// What MetalLB's annotations ask for, beside our own.
func TestAmend(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations words
		before      lb.Request
		check       func(lb.Request) bool
		invalid     string
	}{
		{name: "nothing", check: func(r lb.Request) bool {
			return r.Voice == lb.Native && r.Pool == "" && r.ShareKey == "" && len(r.From) == 0 && r.Dialects[0] == lb.Native
		}},
		{name: "a pool", annotations: words{AnnotationAddressPool: " lan "}, check: func(r lb.Request) bool {
			return r.Voice == Name && r.Pool == "lan" && cmp.Equal(r.Dialects, []lb.Dialect{Name, lb.Native, "kube-vip"})
		}},
		{name: "a pool by its old name", annotations: words{oldPrefix + strings.TrimPrefix(AnnotationAddressPool, prefix): "lan"}, check: func(r lb.Request) bool { return r.Voice == Name && r.Pool == "lan" }},
		{name: "an empty annotation speaks MetalLB's words", annotations: words{AnnotationShare: ""}, check: func(r lb.Request) bool { return r.Voice == Name && r.ShareKey == "" }},
		{name: "a pool of ours", before: lb.Request{Pool: "edge"}, check: func(r lb.Request) bool { return r.Pool == "edge" && r.Dialects[0] == lb.Native }},
		{name: "a pool of ours, MetalLB's first", before: lb.Request{Pool: "edge", Dialects: []lb.Dialect{Name, lb.Native}}, check: func(r lb.Request) bool { return r.Dialects[0] == lb.Native }},
		{name: "no pool, MetalLB's first", before: lb.Request{Dialects: []lb.Dialect{Name, lb.Native}}, check: func(r lb.Request) bool { return r.Dialects[0] == Name }},
		{name: "both the same, MetalLB's first", annotations: words{AnnotationAddressPool: "edge"}, before: lb.Request{Pool: "edge", Dialects: []lb.Dialect{Name, lb.Native}}, check: func(r lb.Request) bool { return r.Dialects[0] == Name }},
		{name: "the same pool", annotations: words{AnnotationAddressPool: "edge"}, before: lb.Request{Pool: "edge"}, check: func(r lb.Request) bool { return r.Pool == "edge" && r.Dialects[0] == lb.Native }},
		{name: "two pools", annotations: words{AnnotationAddressPool: "lan"}, before: lb.Request{Pool: "edge"}, invalid: `fairlead.io/pool requests "edge", and annotation metallb.io/address-pool requests "lan"`},
		{name: "a key", annotations: words{AnnotationShare: "k"}, check: func(r lb.Request) bool { return r.ShareKey == "k" }},
		{name: "two keys", annotations: words{AnnotationShare: "k"}, before: lb.Request{ShareKey: "l"}, invalid: `fairlead.io/share requests "l"`},
		{name: "where it is from", annotations: words{AnnotationAllocatedFrom: "lan"}, before: lb.Request{From: []string{"edge"}}, check: func(r lb.Request) bool {
			return r.Voice == lb.Native && cmp.Equal(r.From, []string{"edge", "lan"})
		}},
		{name: "where it is from, known", annotations: words{AnnotationAllocatedFrom: "lan"}, before: lb.Request{From: []string{"lan"}}, check: func(r lb.Request) bool { return cmp.Equal(r.From, []string{"lan"}) }},
		{name: "an address", annotations: words{AnnotationAddresses: "192.0.2.7"}, check: func(r lb.Request) bool { return cmp.Equal(r.Addresses, addrs("192.0.2.7"), cmp.Comparer(sameAddr)) }},
		{name: "the same as in ours", annotations: words{AnnotationAddresses: "192.0.2.7", native.AnnotationAddresses: "192.0.2.7"}, before: lb.Request{Addresses: addrs("192.0.2.7")},
			check: func(r lb.Request) bool { return len(r.Addresses) == 1 }},
		{name: "another than in ours", annotations: words{AnnotationAddresses: "192.0.2.7", native.AnnotationAddresses: "192.0.2.8"}, before: lb.Request{Addresses: addrs("192.0.2.8")},
			invalid: "fairlead.io/addresses requests \"192.0.2.8\", and annotation metallb.io/loadBalancerIPs requests \"192.0.2.7\""},
		{name: "both families", annotations: words{AnnotationAddresses: "192.0.2.7, 2001:db8::7"}, before: lb.Request{Families: []lb.Family{lb.IPv6, lb.IPv4}},
			check: func(r lb.Request) bool { return len(r.Addresses) == 2 }},
		{name: "one of two families", annotations: words{AnnotationAddresses: "192.0.2.7"}, before: lb.Request{Families: []lb.Family{lb.IPv6, lb.IPv4}}, invalid: string(lb.FamilyMismatch)},
		{name: "the other family", annotations: words{AnnotationAddresses: "2001:db8::7"}, invalid: string(lb.FamilyMismatch)},
		{name: "one family twice", annotations: words{AnnotationAddresses: "192.0.2.7,192.0.2.8"}, before: lb.Request{Families: []lb.Family{lb.IPv6, lb.IPv4}}, invalid: string(lb.FamilyMismatch)},
		{name: "three", annotations: words{AnnotationAddresses: "192.0.2.7,192.0.2.8,2001:db8::7"}, invalid: "has 3 addresses; at most one per IP family"},
		{name: "no address", annotations: words{AnnotationAddresses: "x"}, invalid: `"x" is not an IP address`},
		{name: "loopback", annotations: words{AnnotationAddresses: "127.0.0.1"}, invalid: "127.0.0.1 is a loopback address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := asksFor(test.annotations, test.before)
			if test.invalid != "" {
				if r.Invalid == nil || !strings.Contains(r.Invalid.String(), test.invalid) {
					t.Errorf("%v", r.Invalid)
				}
				return
			}
			if r.Invalid != nil || !test.check(r) {
				t.Errorf("%v: %+v", r.Invalid, r)
			}
		})
	}
}

func sameAddr(a, b netip.Addr) bool { return a == b }

// What is wrong with our annotation and with MetalLB's is told; that the two then differ is
// no news.
func TestAmendWrongTwice(t *testing.T) {
	before := lb.InvalidRequest.With("Ours is wrong")
	ours := words{native.AnnotationAddresses: "nowhere", AnnotationAddresses: "192.0.2.7"}
	if r := asksFor(ours, lb.Request{Invalid: &before}); r.Invalid.Text != before.Text {
		t.Errorf("%v", r.Invalid)
	}
	theirs := words{native.AnnotationAddresses: "192.0.2.8", AnnotationAddresses: "127.0.0.1"}
	if r := asksFor(theirs, lb.Request{Addresses: addrs("192.0.2.8")}); r.Invalid == nil || strings.Contains(r.Invalid.Text, "requests") {
		t.Errorf("%v", r.Invalid)
	}
	s := &lb.Service{Annotations: words{AnnotationAddresses: "192.0.2.7"}, LoadBalancerIP: "192.0.2.7"}
	if asks := Read(s, []lb.Family{lb.IPv4}); asks.Invalid == nil || !strings.Contains(asks.Invalid.Text, "can not have both") {
		t.Errorf("%v", asks.Invalid)
	}
}

// The pools that addresses are from are noted as MetalLB does.
func TestNotes(t *testing.T) {
	has, lan := addrs("192.0.2.7"), lb.PoolKey{Dialect: Name, Name: "lan"}
	for name, test := range map[string]struct {
		v    lb.Verdict
		want words
	}{
		"of a pool":     {lb.Verdict{Addresses: has, Pools: []lb.PoolKey{lan}}, words{AnnotationAllocatedFrom: "lan"}},
		"of ours, too":  {lb.Verdict{Addresses: has, Pools: []lb.PoolKey{{Dialect: lb.Native, Name: "edge"}, lan}}, words{AnnotationAllocatedFrom: "lan"}},
		"out of pool":   {lb.Verdict{Addresses: has}, nil},
		"nothing":       {lb.Verdict{}, words{AnnotationAllocatedFrom: ""}},
		"waits for one": {lb.Verdict{Pools: []lb.PoolKey{lan}}, words{AnnotationAllocatedFrom: "lan"}},
	} {
		if diff := cmp.Diff(test.want, Dialect{}.Notes(nil, &test.v, "")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDeprecated(t *testing.T) {
	if r := (Dialect{}).Deprecated(&lb.Service{Annotations: words{AnnotationShare: "k"}}); r != nil {
		t.Errorf("%v", r)
	}
	old := nameOfOld(AnnotationShare)
	if r := (Dialect{}).Deprecated(&lb.Service{Annotations: words{old: "k"}}); r == nil || r.Code != OldAnnotation || !strings.Contains(r.Text, old) {
		t.Errorf("%v", r)
	}
}

// Of the states of MetalLB's processes only the controller's is kept.
func TestStates(t *testing.T) {
	for name, kept := range map[string]bool{StateName: true, "speaker-node1": false} {
		s := &metallb.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: words{"a": "b"}}}
		s.Status.Result = metallb.Valid
		slimState(s)
		if (s.Labels != nil) != kept || (s.Status.Result == metallb.Valid) != kept {
			t.Errorf("%s: %+v", name, s)
		}
	}
	pool := &metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: words{"a": "b"}}}
	if slimState(pool); pool.Labels == nil {
		t.Error("another kind is changed")
	}
	quiet := map[string]bool{KindPool: false, KindAdvertisement: false, "ConfigurationState": true, KindPeer: true, KindBGPAdvertisement: true, KindProfile: true, KindCommunity: true}
	for _, k := range (Dialect{}).Kinds() {
		if k.Quiet != quiet[k.Kind] {
			t.Errorf("%s: quiet %t", k.Kind, k.Quiet)
		}
	}
	if !(&Reading{}).Same(nil) {
		t.Error("Services are read again, although the objects say nothing about them")
	}
}

// Objects of one namespace are read.
func TestReadObjects(t *testing.T) {
	pool, ad := poolWith("192.0.2.0/24"), &metallb.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "metallb-system", Name: "all"}}
	pool.Namespace, pool.Name = "metallb-system", "lan"
	var o compat.Objects
	o.All = map[schema.GroupVersionKind][]compat.Object{PoolKind: {pool}, AdvertisementKind: {ad}}
	r := Dialect{Namespace: "metallb-system"}.Read(o)
	if p := r.Pools(); len(p) != 1 || len(p[0].Advertisements) != 1 {
		t.Errorf("%+v", p)
	}
}

// MetalLB's events come first; an event that is not about a Service has no other text.
func TestVoice(t *testing.T) {
	v := Dialect{}.Voice()
	if !v.Alone() {
		t.Error("others may speak, too")
	}
	reason := lb.Ready.With("192.0.2.7", "pool lan")
	for name, test := range map[string]struct {
		r *lb.Request
		v *lb.Verdict
	}{"neither": {}, "no verdict": {r: &lb.Request{}}, "no request": {v: &lb.Verdict{}}} {
		if e := v.Event(reason, test.r, test.v); e.Message != reason.Text || e.Component != Component {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestWhichReasonsAreWhat(t *testing.T) {
	good := []lb.Code{"AdvertisementReady", "BFDProfileReady", "CommunityReady", "SessionsEstablished"}
	for code, about := range Reasons {
		isGood := false
		for _, g := range good {
			isGood = isGood || g == code
		}
		if about.Ready != isGood || about.Warning == (isGood || code == "PeerUnused") || about.Event != (code == OldAnnotation) {
			t.Errorf("%s: %+v", code, about)
		}
	}
}
