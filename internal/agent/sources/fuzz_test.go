package sources

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// FuzzService: whatever a tenant writes on a Service, an agent reads addresses that a
// host can have, wants leases only of families that the Service has, and reads the same
// again. The Service stays as it is, and one of another class is nothing to it.
func FuzzService(f *testing.F) {
	keys := []string{
		native.AnnotationAddresses, native.AnnotationPool, native.AnnotationShare, native.AnnotationAllocatedFrom, native.AnnotationDHCP,
		metallb.AnnotationAllocatedFrom, metallb.AnnotationAddresses,
		kubevip.AnnotationAddresses, kubevip.AnnotationInterface, kubevip.AnnotationIgnore, kubevip.AnnotationHostname, kubevip.AnnotationHardwareAddress, kubevip.AnnotationRequestedIP,
	}
	f.Add("192.0.2.7\nedge\nkey\nmetallb/lan,edge\nIPv4,IPv6\nlan", "192.0.2.7,2001:db8::7", "cidr-global=192.0.2.0/24", uint8(2), "")
	f.Add("\n\n\n\nIPv4\n\n\n0.0.0.0,::\neth1\n\nshop\n02:00:00:00:00:01\n10.0.0.9", "10.0.0.9", "cidr-global=0.0.0.0/32\ninterface-shop=eth2", uint8(3), "")
	f.Add(",,,\n/\n\n,metallb/\nIPv7\n\n\n0.0.0.0,0.0.0.0\n \nmaybe\n"+strings.Repeat("x", 300)+"\nzz\n::1", "fe80::1%eth0,::ffff:1.2.3.4,,x", "=", uint8(1), "other.example/class")
	f.Fuzz(func(t *testing.T, values, published, data string, families uint8, class string) {
		s := serviceOf("", [][]corev1.IPFamily{nil, {corev1.IPv6Protocol}, v4, dual}[families%4])
		for i, value := range strings.Split(values, "\n") {
			if i < len(keys) && value != "" {
				s.Annotations[keys[i]] = value
			}
		}
		for text := range strings.SplitSeq(published, ",") {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: text})
		}
		if class != "" {
			s.Spec.LoadBalancerClass = &class
		}
		cm := &corev1.ConfigMap{Data: map[string]string{}}
		for line := range strings.SplitSeq(data, "\n") {
			key, value, _ := strings.Cut(line, "=")
			cm.Data[key] = value
		}
		before := s.DeepCopy()
		for _, dialects := range [][]lb.Dialect{{kubevip.Name}, {lb.Native, metallb.Name, kubevip.Name}, {lb.Native}} {
			c := config.Default()
			c.Classes = []config.Class{{Backend: config.Announce, Pools: dialects}}
			r := New(Options{Config: c, Interface: "eth9"}, nil)
			r.config = kubevip.Parse(cm)
			got := r.Service(s)
			if again := r.Service(s); !reflect.DeepEqual(got, again) {
				t.Fatalf("first %+v, then %+v", got, again)
			}
			if got == nil {
				continue
			}
			if class != "" {
				t.Fatalf("of class %q: %+v", class, got)
			}
			for i, a := range got.Published {
				if !a.IsValid() || a.Is4In6() || a.Zone() != "" || slices.Contains(got.Published[:i], a) {
					t.Errorf("published are %v", got.Published)
				}
			}
			if got.Lease == nil {
				continue
			}
			if !slices.Contains(dialects, kubevip.Name) {
				t.Errorf("wants a lease: %+v", got.Lease)
			}
			for _, family := range lb.Families {
				if got.Lease.Families[family] && !slices.Contains(got.Request.Families, family) {
					t.Errorf("wants %s of %v", family, got.Request.Families)
				}
			}
			if m := len(got.Lease.MAC); m != 0 && m != 6 || len(got.Lease.Hostname) > 253 {
				t.Errorf("wants %+v", got.Lease)
			}
		}
		if !reflect.DeepEqual(s, before) {
			t.Errorf("the Service has changed: %v", s)
		}
	})
}
