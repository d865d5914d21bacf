package compat_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// fuzzed are the classes that Services are read in.
var fuzzed = []compat.Class{
	{Dialects: []lb.Dialect{lb.Native}},
	{Dialects: []lb.Dialect{lb.Native, metallb.Name, kubevip.Name}},
	{Dialects: []lb.Dialect{kubevip.Name, lb.Native}},
	{Dialects: []lb.Dialect{metallb.Name}},
	{Dialects: []lb.Dialect{kubevip.Name}, Words: kubevip.Name},
	{Dialects: []lb.Dialect{lb.Native}, Words: kubevip.Name},
	{Words: cloudscale.Format},
}

// fuzzedKeys are annotations that get a value each, in turn.
var fuzzedKeys = []string{
	native.AnnotationAddresses, native.AnnotationPool, native.AnnotationShare, native.AnnotationReallocate,
	native.AnnotationAllocatedFrom, native.AnnotationDHCP, native.AnnotationReason,
	metallb.AnnotationAddresses, metallb.AnnotationAddressPool, metallb.AnnotationShare, metallb.AnnotationAllocatedFrom, "metallb.universe.tf/loadBalancerIPs",
	kubevip.AnnotationAddresses, kubevip.AnnotationGiven, kubevip.AnnotationAsked, kubevip.AnnotationInterface, kubevip.AnnotationIgnore, kubevip.AnnotationHost,
	kubevip.AnnotationHostname, kubevip.AnnotationHardwareAddress, kubevip.AnnotationRequestedIP,
	cloudscale.AnnotationFloatingIPs, "fairlead.io/x",
}

// readings of all dialects. The ConfigMap has data as lines of key=value; it cannot
// be read if there is nothing but "unread".
func readings(data string) compat.Readings {
	var o compat.Objects
	if data == "unread" {
		o.Unread = map[schema.GroupVersionKind]string{kubevip.KindConfigMap: "it may not be read", native.KindPool: "it may not be read"}
	} else if data != "" {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Data: map[string]string{}}
		for line := range strings.SplitSeq(data, "\n") {
			key, value, _ := strings.Cut(line, "=")
			cm.Data[key] = value
		}
		o.All = map[schema.GroupVersionKind][]compat.Object{kubevip.KindConfigMap: {cm}}
	}
	var out compat.Readings
	for _, d := range []compat.Dialect{native.Dialect{}, metallb.Dialect{}, kubevip.Dialect{}, cloudscale.Dialect{}} {
		out = append(out, compat.Named{Dialect: d, Reading: d.Read(o)})
	}
	return out
}

// FuzzReadings: whatever a tenant writes on a Service, in whatever dialects, in
// every class it is either told what is wrong, or asks for what a Service can have.
// The same is always read in the same way, and the Service stays as it is.
func FuzzReadings(f *testing.F) {
	f.Add("192.0.2.7", "192.0.2.7", "192.0.2.7", "", uint8(0), true, false)
	f.Add("192.0.2.7,2001:db8::7\nedge\nkey\ntrue\nedge,kube-vip/cidr-global\nIPv4,IPv6\nNoPool: No.\n192.0.2.7,2001:db8::7\nlan\nkey", "", "192.0.2.7", "cidr-global=192.0.2.0/24\nallow-share-global=true", uint8(2), true, true)
	f.Add("\n\n\n\n\n\n\n\n\n\n\n\n0.0.0.0,::\n0.0.0.0\nnothing\neth0\nx", "0.0.0.0", "192.0.2.9", "unread", uint8(3), false, true)
	f.Add("10.0.0.1,10.0.0.2,x\n\n\nmaybe\n,,/\nIPv7\n:\n ,\n\n\n\n\nvip.example.com,127.0.0.1,,", "::ffff:1.2.3.4", "fe80::1%eth0", "outside-pools=refuse\ncidr-=1", uint8(1), true, false)
	f.Fuzz(func(t *testing.T, values, ip, published, data string, families uint8, labelled, local bool) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Annotations: map[string]string{}}}
		for i, value := range strings.Split(values, "\n") {
			if i < len(fuzzedKeys) && value != "" {
				s.Annotations[fuzzedKeys[i]] = value
			}
		}
		s.Spec.Type, s.Spec.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, ip
		s.Spec.IPFamilies = [][]corev1.IPFamily{nil, {corev1.IPv6Protocol}, {corev1.IPv4Protocol, corev1.IPv6Protocol}, {corev1.IPv6Protocol, corev1.IPv4Protocol}}[families%4]
		if labelled {
			s.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
		}
		if local {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		if published != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: published}}
		}
		before, all, value := s.DeepCopy(), readings(data), kubeapi.Service(s)
		for _, class := range fuzzed {
			r := all.Request(value, nil, class)
			if again := readings(data).Request(kubeapi.Service(s), nil, class); !reflect.DeepEqual(r, again) {
				t.Errorf("in %v, first %+v, then %+v", class, r, again)
			}
			checkRequest(t, &r, class, utf8.ValidString(values+ip+published+data))
		}
		if !reflect.DeepEqual(s, before) || !reflect.DeepEqual(value, kubeapi.Service(before)) {
			t.Errorf("the Service has changed: %v", s)
		}
	})
}

func checkRequest(t *testing.T, r *lb.Request, in compat.Class, legible bool) {
	t.Helper()
	if len(r.Families) == 0 || len(r.Families) > len(lb.Families) || r.Voice == "" || r.Service.String() != "shop/web" {
		t.Errorf("in %v: %+v", in, r)
	}
	if got, want := slices.Sorted(slices.Values(r.Dialects)), slices.Sorted(slices.Values(in.Dialects)); !slices.Equal(got, want) {
		t.Errorf("in %v: may have addresses of %v", in, got)
	}
	for _, reason := range []*lb.Reason{r.Invalid, r.Unread} {
		if reason != nil && (reason.Text == "" || reason.Ready() || strings.Contains(reason.Text, "%!") || len(reason.Text) > 16<<10 || legible && !utf8.ValidString(reason.Text)) {
			t.Errorf("in %v, says %d bytes: %.300q", in, len(reason.Text), reason.Text)
		}
	}
	if r.Invalid != nil {
		return
	}
	for i, a := range r.Addresses {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.Is4In6() || a.Zone() != "" || slices.Contains(r.Addresses[:i], a) || i > 16 {
			t.Errorf("in %v, asks for %v", in, r.Addresses)
		}
	}
	if slices.ContainsFunc(r.Leased, func(a netip.Addr) bool { return !a.IsValid() }) || len(r.Leased) > len(lb.Families) {
		t.Errorf("in %v, leased %v", in, r.Leased)
	}
	if strings.TrimSpace(r.Pool) != r.Pool || strings.TrimSpace(r.ShareKey) != r.ShareKey {
		t.Errorf("in %v, blanks in %q or %q", in, r.Pool, r.ShareKey)
	}
}
