package kubevip

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

var (
	where = types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}
	ours  = Dialect{ConfigMap: where}
)

func configMap(namespace, name string, data words) compat.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}, Data: data}
}

func read(data words) *Reading {
	return ours.Read(compat.Objects{All: map[schema.GroupVersionKind][]compat.Object{KindConfigMap: {configMap(where.Namespace, where.Name, data)}}}).(*Reading)
}

func unread(why string) *Reading {
	return ours.Read(compat.Objects{Unread: map[schema.GroupVersionKind]string{KindConfigMap: why}}).(*Reading)
}

// Of all ConfigMaps one counts. Its pools name it, so that it gets their events.
func TestOneConfigMap(t *testing.T) {
	data := words{"range-global": "10.0.0.1-10.0.0.9"}
	if r := read(data); len(r.Pools()) != 1 || r.Pools()[0].Object == nil || r.Pools()[0].Object.UID != "u" || !r.Config.Present {
		t.Errorf("it is not read: %+v", r.Pools())
	}
	for _, other := range []compat.Object{configMap("other", where.Name, data), configMap(where.Namespace, "other", data), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: where.Namespace, Name: where.Name}}} {
		r := ours.Read(compat.Objects{All: map[schema.GroupVersionKind][]compat.Object{KindConfigMap: {other}}}).(*Reading)
		if len(r.Pools()) != 0 || r.Config.Present {
			t.Errorf("%T %s/%s is read", other, other.GetNamespace(), other.GetName())
		}
	}
	p := read(data).Pools()[0]
	if !p.MayOverlap || !p.GivesByName || !p.SkipIPv4Ends {
		t.Errorf("pools of kube-vip may overlap, have a name, and skip .0 and .255: %+v", p)
	}
}

// Services are read again if something changes that is said about them.
func TestSame(t *testing.T) {
	base := words{"range-global": "10.0.0.1-10.0.0.9", "interface-global": "eth0", "allow-share-shop": "true", "range-shop": "10.0.1.1-10.0.1.9"}
	with := func(key, value string) *Reading {
		data := words{}
		for k, v := range base {
			data[k] = v
		}
		if data[key] = value; value == "" {
			delete(data, key)
		}
		return read(data)
	}
	for _, test := range []struct {
		name string
		b    compat.Reading
		want bool
	}{
		{"nothing", read(base), true},
		{"the addresses of a pool", with("range-shop", "10.0.1.1-10.0.1.99"), true},
		{"an interface", with("interface-global", "eth1"), false},
		{"sharing", with("allow-share-shop", "false"), false},
		{"the pool of a namespace", with("range-shop", ""), false},
		{"the pool of all", with("range-global", ""), false},
		{"what is outside of pools", with(KeyOutside, "refuse"), false},
		{"the ConfigMap is gone", ours.Read(compat.Objects{}), false},
		{"another format", nil, false},
	} {
		if got := read(base).Same(test.b); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
	empty, gone := read(nil), ours.Read(compat.Objects{})
	if empty.Same(gone) {
		t.Error("an empty ConfigMap is as good as none")
	}
	if !unread("a").Same(unread("a")) || unread("a").Same(unread("b")) || unread("a").Same(gone) {
		t.Error("whether it can be read")
	}
}

// An administrator has switched kube-vip's words on: by the backend, by the first pools of
// the class, or by the ConfigMap.
func TestHonours(t *testing.T) {
	for _, test := range []struct {
		name             string
		in               compat.Class
		without, present bool
	}{
		{"the backend's", compat.Class{Words: Name}, true, true},
		{"other pools only", compat.Class{Dialects: []lb.Dialect{lb.Native}}, false, false},
		{"kube-vip's pools first", compat.Class{Dialects: []lb.Dialect{Name, lb.Native}}, true, true},
		{"kube-vip's pools among others", compat.Class{Dialects: []lb.Dialect{lb.Native, Name}}, false, true},
	} {
		if got := ours.Read(compat.Objects{}).(*Reading).Honours(test.in); got != test.without {
			t.Errorf("%s, without a ConfigMap: %t", test.name, got)
		}
		if got := read(words{}).Honours(test.in); got != test.present {
			t.Errorf("%s: %t", test.name, got)
		}
	}
	// In the agent, no ConfigMap is read.
	none := &Reading{}
	if none.Honours(compat.Class{Dialects: []lb.Dialect{lb.Native, Name}}) || none.Config.Interfaces() != nil || none.Config.Interface("shop") != "" || none.Config.Anywhere(Name) {
		t.Error("something is said without a ConfigMap")
	}
	if got := read(words{"interface-global": "eth1", "interface-shop": "eth0"}).Config.Interfaces(); !cmp.Equal(got, []string{"eth0", "eth1"}) {
		t.Errorf("interfaces %v", got)
	}
}

func ask(r *Reading, s *lb.Service, in compat.Class) lb.Request {
	q := lb.Request{Families: []lb.Family{lb.IPv4, lb.IPv6}, Policy: lb.PreferDualStack, Backends: "a=1"}
	r.Amend(&q, s, in)
	return q
}

var (
	announced = compat.Class{Dialects: []lb.Dialect{lb.Native, Name}}
	theirs    = compat.Class{Words: Name, Dialects: []lb.Dialect{Name}}
	first     = compat.Class{Dialects: []lb.Dialect{Name}}
	published = []lb.Ingress{{IP: "10.0.0.3"}}
)

// A Service whose address is of a ConfigMap that is gone stays with those that it shares it
// with. kube-vip sees to the traffic policy itself.
func TestAmendWithoutConfigMap(t *testing.T) {
	gone := ours.Read(compat.Objects{}).(*Reading)
	from := &lb.Service{Annotations: words{native.AnnotationAllocatedFrom: "kube-vip/cidr-global"}}
	if q := ask(gone, from, announced); q.ShareKey == "" || !q.Alone || q.ShareOnly == nil || q.Backends != "a=1" {
		t.Errorf("of a ConfigMap that is gone: %+v", q)
	}
	q := lb.Request{ShareKey: "own"}
	gone.Amend(&q, from, announced)
	if q.ShareKey != "own" || q.Alone {
		t.Errorf("its own key is lost: %+v", q)
	}
	if q := ask(gone, &lb.Service{Annotations: words{native.AnnotationAllocatedFrom: "edge"}}, announced); q.ShareKey != "" {
		t.Errorf("of another pool: %+v", q)
	}
	if q := ask(gone, &lb.Service{}, announced); q.ShareKey != "" {
		t.Errorf("without a pool: %+v", q)
	}
	if q := ask(gone, &lb.Service{Annotations: words{AnnotationAddresses: "10.0.0.9"}}, theirs); q.Backends != "" || !cmp.Equal(q.Families, []lb.Family{lb.IPv4}) {
		t.Errorf("announced by kube-vip: %+v", q)
	}
}

// While the ConfigMap cannot be read, Services that have an address of it keep it as it is,
// and those that should get one wait.
func TestAmendUnread(t *testing.T) {
	const nothing, asIs, waits = "nothing", "as it is", "waits"
	spoken := words{"kube-vip.io/x": "y"}
	for _, test := range []struct {
		name string
		s    lb.Service
		in   compat.Class
		want string
	}{
		{"new, of other pools", lb.Service{}, announced, nothing},
		{"new, of kube-vip's pools", lb.Service{}, first, waits},
		{"new, in kube-vip's words", lb.Service{Annotations: spoken}, announced, waits},
		{"has one, in kube-vip's words", lb.Service{Annotations: spoken, Ingress: published}, announced, asIs},
		{"has one, of kube-vip's pools first", lb.Service{Ingress: published}, first, nothing},
		{"was given one", lb.Service{Annotations: words{AnnotationGiven: "10.0.0.1"}, Labels: words{Label: LabelValue}}, announced, asIs},
		{"was given one, kube-vip announces", lb.Service{Annotations: words{AnnotationGiven: "10.0.0.1", AnnotationAddresses: "10.0.0.1"}}, theirs, asIs},
		{"asks for one, refused, kube-vip announces", lb.Service{Annotations: words{AnnotationAddresses: "10.0.0.3", native.AnnotationReason: "AddressInUse: By another."}, Ingress: published}, theirs, waits},
		{"no pools of kube-vip", lb.Service{Annotations: spoken}, compat.Class{Dialects: []lb.Dialect{lb.Native}}, nothing},
	} {
		q := ask(unread("forbidden"), &test.s, test.in)
		got := nothing
		switch {
		case q.AsIs:
			got = asIs
		case q.Invalid != nil && q.Invalid.Code == lb.PoolsUnreadable:
			got = waits
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if q := ask(read(words{}), &lb.Service{Annotations: spoken}, announced); q.AsIs || q.Invalid != nil {
		t.Errorf("it can be read: %+v", q)
	}
}

// What a Service is believed to hold that kube-vip announces.
func TestBelieved(t *testing.T) {
	attested := &lb.Condition{True: true, Reason: lb.Reason{Text: "The Service has 10.0.0.3."}}
	forged := &lb.Condition{True: true, Reason: lb.Reason{Text: "The Service has 10.0.0.4."}}
	note := words{AnnotationAddresses: "10.0.0.1", AnnotationGiven: "10.0.0.1"}
	refused := words{AnnotationAddresses: "10.0.0.3", native.AnnotationReason: "AddressInUse: By another."}
	for _, test := range []struct {
		name string
		s    lb.Service
		want string
	}{
		{"nothing", lb.Service{}, ""},
		{"was announced by Fairlead", lb.Service{Says: attested, Annotations: note, Ingress: published}, "10.0.0.3"},
		{"a status that the condition does not have", lb.Service{Says: forged, Annotations: note, Ingress: published}, "10.0.0.1"},
		{"no status", lb.Service{Says: attested, Annotations: note}, "10.0.0.1"},
		{"no condition", lb.Service{Annotations: note, Ingress: published}, "10.0.0.1"},
		{"kube-vip was told nothing yet", lb.Service{Ingress: published}, "10.0.0.3"},
		{"had something and has it no more", lb.Service{Annotations: words{AnnotationGiven: Nothing}, Ingress: published}, "10.0.0.3"},
		{"asks, and kube-vip publishes it", lb.Service{Annotations: words{AnnotationAddresses: "10.0.0.3"}, Ingress: published}, "10.0.0.3"},
		{"asks, refused", lb.Service{Annotations: refused, Ingress: published}, ""},
		{"given, another reason", lb.Service{Annotations: words{AnnotationAddresses: "10.0.0.1", AnnotationGiven: "10.0.0.1", native.AnnotationReason: "AddressInUse: By another."}}, "10.0.0.1"},
	} {
		var got []string
		for _, a := range Believed(&test.s) {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %q", test.name, got, test.want)
		}
	}
}

// A Service that was given an address for kube-vip, which it has not yet, asks for that.
func TestInheritsWhatIsGiven(t *testing.T) {
	note := words{AnnotationAddresses: "10.0.0.1", AnnotationGiven: "10.0.0.1"}
	for _, test := range []struct {
		name string
		s    lb.Service
		in   compat.Class
		want bool
	}{
		{"given", lb.Service{Annotations: note}, announced, true},
		{"kube-vip goes on announcing", lb.Service{Annotations: note}, theirs, false},
		{"other pools only", lb.Service{Annotations: note}, compat.Class{Dialects: []lb.Dialect{lb.Native}}, false},
		{"nothing was given", lb.Service{}, announced, false},
		{"asks for another", lb.Service{Annotations: words{AnnotationAddresses: "10.0.0.9", AnnotationGiven: "10.0.0.1"}}, announced, false},
		{"has a status", lb.Service{Annotations: note, Ingress: published}, announced, false},
	} {
		if got := ask(read(words{}), &test.s, test.in); got.Inherits != test.want {
			t.Errorf("%s: %t", test.name, got.Inherits)
		}
	}
}

// The node that announces is named on kube-vip's Services.
func TestNotes(t *testing.T) {
	has := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	pool, other := []lb.PoolKey{{Dialect: Name, Name: "x"}}, []lb.PoolKey{{Dialect: lb.Native, Name: "x"}}
	spoken := &lb.Service{Annotations: words{"kube-vip.io/x": "y", AnnotationHost: "a"}}
	for _, test := range []struct {
		name    string
		s       *lb.Service
		v       lb.Verdict
		carrier string
		want    words
	}{
		{"by its pool", &lb.Service{}, lb.Verdict{Addresses: has, Pools: pool}, "a", words{AnnotationHost: "a"}},
		{"by its words", spoken, lb.Verdict{Addresses: has, Pools: other}, "a", words{AnnotationHost: "a"}},
		{"of another pool", &lb.Service{}, lb.Verdict{Addresses: has, Pools: other}, "a", nil},
		{"without an address", spoken, lb.Verdict{Pools: pool}, "a", nil},
		{"nobody announces it", spoken, lb.Verdict{Addresses: has, Pools: pool}, "", nil},
	} {
		if diff := cmp.Diff(test.want, ours.Notes(test.s, &test.v, test.carrier)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	if ours.Moved(spoken, "a") || !ours.Moved(spoken, "b") || ours.Moved(&lb.Service{}, "b") {
		t.Error("whether it has moved")
	}
}

// What is asked of a DHCP server in vain is told only where one is asked.
func TestRemark(t *testing.T) {
	s := &lb.Service{Annotations: words{AnnotationHardwareAddress: "nonsense"}}
	if r := ours.Remark(s, &lb.Verdict{}); r != nil {
		t.Errorf("without DHCP: %v", r)
	}
	if r := ours.Remark(s, &lb.Verdict{DHCP: [2]bool{lb.IPv4: true}}); r == nil || r.Code != LeaseWishIgnored {
		t.Errorf("by DHCP: %v", r)
	}
}

// Events have the names of cloud controllers on Services, and their own on the ConfigMap.
func TestVoice(t *testing.T) {
	v := ours.Voice()
	if v.Alone() {
		t.Error("nobody else may speak")
	}
	for _, test := range []struct {
		reason lb.Reason
		r      *lb.Request
		own    bool
	}{
		{lb.NoPool.With("a pool"), nil, false},
		{lb.NoPool.With("a pool"), &lb.Request{}, false},
		{Reasons.With(LeaseWishIgnored, "a", "b"), nil, false},
		{Reasons.With(KeyUnknown, "a", "b"), nil, true},
		{Reasons.With(KeyUnknown, "a", "b"), &lb.Request{}, false},
		{lb.PoolInvalid.With("x"), nil, true},
	} {
		want := EventName(test.reason)
		if test.own {
			want = string(test.reason.Code)
		}
		if got := v.Event(test.reason, test.r, nil).Reason; got != want {
			t.Errorf("%s: %s, want %s", test.reason.Code, got, want)
		}
	}
}

func TestWhichReasonsAreWhat(t *testing.T) {
	for code, want := range map[lb.Code]lb.About{
		KeyInvalid: {Warning: true, Event: true}, KeyShadowed: {Warning: true, Event: true}, KeyUnknown: {Warning: true, Event: true},
		LeftToLease: {Ready: true}, LeaseWishIgnored: {Ready: true, Warning: true}, LeaseNotPermitted: {Ready: true, Warning: true},
	} {
		if got := Reasons[code]; got.Ready != want.Ready || got.Warning != want.Warning || got.Event != want.Event {
			t.Errorf("%s: %+v", code, got)
		}
	}
}
