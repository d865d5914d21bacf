package kubevip_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/backend/announce"
	provider "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/notary"
)

// texts are addresses as one text.
func texts(addresses []netip.Addr) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

// opened returns a notary at its first start, and one with the same key thereafter.
func opened(t *testing.T) (first, later *notary.Notary) {
	t.Helper()
	secrets := fake.NewClientset().CoreV1().Secrets("ns")
	first, later = &notary.Notary{}, &notary.Notary{}
	for _, err := range []error{first.Open(t.Context(), secrets), later.Open(t.Context(), secrets), later.Close(t.Context(), secrets)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return first, later
}

// What a Service holds, by what is written on it and by who announces now, and how
// far that is believed.
func TestHeld(t *testing.T) {
	first, notes := opened(t)
	signer := provider.Backend{Notary: notes}
	provided, importing := backend.Holder(signer), backend.Holder(provider.Backend{Notary: first})
	announced := backend.Holder(&announce.Backend{Dialects: []compat.Dialect{native.Dialect{}, kubevip.Dialect{}}, Noted: signer})
	plain := backend.Holder(&announce.Backend{Dialects: []compat.Dialect{native.Dialect{}}})
	type marks = map[string]string
	const listed, given, asked, proof, said = kubevip.AnnotationAddresses, kubevip.AnnotationGiven, kubevip.AnnotationAsked, kubevip.AnnotationProof, native.AnnotationReason
	signed := func(uid types.UID, addresses ...string) string {
		var has []netip.Addr
		for _, a := range addresses {
			has = append(has, netip.MustParseAddr(a))
		}
		return notes.Sign(uid, has, nil, time.Unix(1, 0))
	}
	for name, test := range map[string]struct {
		backend   backend.Holder
		notes     marks
		spec      string
		label     bool
		status    string
		condition string
		want      string
		evidence  lb.Evidence
		current   bool // see lb.Held
		left      bool
	}{
		"new":                            {backend: provided, evidence: lb.Asserted},
		"given":                          {backend: provided, notes: marks{listed: "10.0.0.1,fd00::1", given: "10.0.0.1,fd00::1", proof: signed("own", "10.0.0.1", "fd00::1")}, spec: "10.0.0.1", label: true, want: "10.0.0.1, fd00::1", evidence: lb.Proven, current: true, left: true},
		"given, without the label":       {backend: provided, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: signed("own", "10.0.0.1")}, spec: "10.0.0.1", want: "10.0.0.1", evidence: lb.Proven, current: true, left: true},
		"forged":                         {backend: provided, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: "1000.AAAA"}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Asserted},
		"copied from another":            {backend: provided, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: signed("other", "10.0.0.1")}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Asserted},
		"another address":                {backend: provided, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: signed("own", "10.0.0.2")}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Asserted},
		"forged, at the first start":     {backend: importing, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: "1000.AAAA"}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Reported, left: true},
		"given, for DHCP":                {backend: provided, notes: marks{listed: "0.0.0.0", given: "0.0.0.0"}, spec: "0.0.0.0", label: true, status: "10.0.0.77", evidence: lb.Asserted, left: true},
		"given, and asks for another":    {backend: provided, notes: marks{listed: "10.0.0.9", given: "10.0.0.1", proof: signed("own", "10.0.0.1")}, spec: "10.0.0.1", label: true, status: "10.0.0.9", want: "10.0.0.1", evidence: lb.Proven, left: true},
		"given, and all was deleted":     {backend: provided, notes: marks{given: "10.0.0.1", proof: signed("own", "10.0.0.1")}, label: true, want: "10.0.0.1", evidence: lb.Proven, left: true},
		"of kube-vip's cloud provider":   {backend: importing, notes: marks{listed: "10.0.0.1"}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Reported, left: true},
		"of the provider, too late":      {backend: provided, notes: marks{listed: "10.0.0.1"}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Asserted},
		"asks":                           {backend: provided, notes: marks{listed: "10.0.0.9"}, evidence: lb.Asserted},
		"asks, and kube-vip announces":   {backend: provided, notes: marks{listed: "10.0.0.9,10.0.0.8"}, status: "10.0.0.9", want: "10.0.0.9", evidence: lb.Asserted},
		"asks, refused":                  {backend: provided, notes: marks{listed: "10.0.0.9", said: "AddressInUse: By another."}, label: true, status: "10.0.0.9", evidence: lb.Asserted, left: true},
		"asks for another than it has":   {backend: provided, notes: marks{listed: "10.0.0.9"}, status: "10.0.0.3", evidence: lb.Asserted},
		"asked and got it, then refused": {backend: provided, notes: marks{listed: "10.0.0.9", asked: "10.0.0.9", said: "AddressIsNode: Of worker-1.", proof: signed("own", "10.0.0.9")}, status: "10.0.0.9", want: "10.0.0.9", evidence: lb.Proven, current: true, left: true},
		"of the provider, then refused":  {backend: importing, notes: marks{listed: "10.0.0.1", said: "AddressIsNode: Of worker-1."}, spec: "10.0.0.1", label: true, want: "10.0.0.1", evidence: lb.Reported, left: true},
		"asks, with a warning":           {backend: provided, notes: marks{listed: "10.0.0.9", said: "OutsidePools: No pool has that."}, label: true, want: "10.0.0.9", evidence: lb.Asserted},
		"was announced by Fairlead":      {backend: provided, status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3", evidence: lb.Proven, left: true},
		"was given, then announced":      {backend: provided, notes: marks{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3", evidence: lb.Proven, current: true, left: true},
		"announced":                      {backend: announced, status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3", evidence: lb.Proven, current: true, left: true},
		"announced, was given":           {backend: announced, notes: marks{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", evidence: lb.Reported},
		"announced, was given another":   {backend: announced, notes: marks{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", status: "10.0.0.3", want: "10.0.0.3", evidence: lb.Reported},
		"announced, kube-vip published":  {backend: announced, notes: marks{listed: "10.0.0.1", given: "10.0.0.1", proof: signed("own", "10.0.0.1")}, spec: "10.0.0.1", status: "10.0.0.1", want: "10.0.0.1", evidence: lb.Proven},
		"announced, asks":                {backend: announced, notes: marks{listed: "10.0.0.9"}, evidence: lb.Reported},
		"announced, emptied by somebody": {backend: announced, notes: marks{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", condition: "The Service has 10.0.0.3.", evidence: lb.Reported, current: true},
		"announced, written by hand":     {backend: announced, status: "10.0.0.4", condition: "The Service has 10.0.0.3.", want: "10.0.0.4", evidence: lb.Reported},
		"not in kube-vip's words":        {backend: plain, notes: marks{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", evidence: lb.Reported},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "own", Annotations: test.notes}}
		s.Spec.LoadBalancerIP = test.spec
		if test.label {
			s.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
		}
		if test.status != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: test.status}}
		}
		if test.condition != "" {
			s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Status: metav1.ConditionTrue, Reason: string(lb.Ready), Message: test.condition}}
		}
		h := test.backend.Held(kubeapi.Service(s))
		if got := texts(h.Addresses); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if h.Evidence != test.evidence || h.Current != test.current || h.Left != test.left {
			t.Errorf("%s: evidence %d, current %v, left %v", name, h.Evidence, h.Current, h.Left)
		}
	}
}

// requestOf is what s asks for in a class with pools of dialects that Fairlead
// announces, where the ConfigMap has data; nil is no ConfigMap.
func requestOf(s *corev1.Service, dialects []lb.Dialect, data map[string]string) lb.Request {
	var objects compat.Objects
	if data != nil {
		objects.All = map[schema.GroupVersionKind][]compat.Object{kubevip.KindConfigMap: {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Data: data}}}
	}
	readings := compat.Readings{
		{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
		{Dialect: kubevip.Dialect{}, Reading: kubevip.Dialect{}.Read(objects)},
	}
	return readings.Request(kubeapi.Service(s), nil, compat.Class{Dialects: dialects})
}

// Who was given an address for kube-vip, and has none yet where Fairlead announces,
// asks for it; only in kube-vip's place also outside of pools.
func TestInherits(t *testing.T) {
	announced, theirs := []lb.Dialect{lb.Native, kubevip.Name}, []lb.Dialect{kubevip.Name}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubevip.AnnotationAddresses: "10.0.0.1", kubevip.AnnotationGiven: "10.0.0.1"}}}
	s.Spec.LoadBalancerIP = "10.0.0.1"
	for _, test := range []struct {
		dialects []lb.Dialect
		anywhere bool
	}{{announced, false}, {theirs, true}} {
		r := requestOf(s, test.dialects, nil)
		if got := texts(r.Addresses); got != "10.0.0.1" || r.Anywhere != test.anywhere || !r.Inherits {
			t.Errorf("%v: asks for %q, anywhere: %v, inherits: %v", test.dialects, got, r.Anywhere, r.Inherits)
		}
	}
	if r := requestOf(s, theirs, map[string]string{kubevip.KeyOutside: "refuse"}); r.Anywhere || !r.Inherits {
		t.Errorf("asks for an address outside of the pools: %v, inherits: %v", r.Anywhere, r.Inherits)
	}
	if r := requestOf(s, []lb.Dialect{lb.Native}, nil); r.Inherits {
		t.Error("inherits where pools of kube-vip are not used")
	}
	s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Reason: string(lb.NoPool)}}
	if r := requestOf(s, theirs, map[string]string{kubevip.KeyOutside: "refuse"}); len(r.Addresses) > 0 || r.Inherits {
		t.Errorf("asks for %v, which it cannot have; inherits: %v", r.Addresses, r.Inherits)
	}
}

// A Service is kube-vip's by its label, its annotations or its pool.
func TestSpeaks(t *testing.T) {
	for want, all := range map[bool][]metav1.ObjectMeta{
		true: {
			{Labels: map[string]string{"implementation": "kube-vip"}},
			{Annotations: map[string]string{"kube-vip.io/serviceInterface": "eth1"}},
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "kube-vip/cidr-global"}},
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "edge,kube-vip/cidr-global"}},
		},
		false: {
			{},
			{Labels: map[string]string{"implementation": "other"}},
			{Annotations: map[string]string{kubevip.AnnotationHost: "worker-1"}}, // written by us
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "edge"}},
		},
	} {
		for _, o := range all {
			if got := kubevip.Speaks(kubeapi.Service(&corev1.Service{ObjectMeta: o})); got != want {
				t.Errorf("%v: %v", o, got)
			}
		}
	}
}

// The reason on a Service is that of its condition, else that of its annotation,
// in whatever words somebody left it.
func FuzzSaid(f *testing.F) {
	f.Add("PoolExhausted: Full.", "")
	f.Add("", "Full.")
	f.Add("nothing", "")
	f.Fuzz(func(t *testing.T, annotation, condition string) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{native.AnnotationReason: annotation}}}
		if condition != "" {
			s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Reason: "NoPool", Message: condition}}
		}
		r := kubevip.WrittenReason(kubeapi.Service(s))
		switch {
		case condition != "" && (r == nil || r.Code != lb.NoPool || r.Text != condition):
			t.Errorf("%v of condition %q", r, condition)
		case condition == "" && (r != nil) != strings.Contains(annotation, ": "):
			t.Errorf("%v of annotation %q", r, annotation)
		case condition == "" && r != nil && r.String() != annotation:
			t.Errorf("%v of annotation %q", r, annotation)
		}
	})
}
