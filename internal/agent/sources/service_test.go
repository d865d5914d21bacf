package sources

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// serviceOf makes a Service with annotations, key and value in turn.
func serviceOf(published string, families []corev1.IPFamily, annotations ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		s.Annotations[annotations[i]] = annotations[i+1]
	}
	s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, families
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	if published != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: published}}
	}
	return s
}

var (
	v4   = []corev1.IPFamily{corev1.IPv4Protocol}
	dual = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
)

// readerOf reads Services in kube-vip's format, with what a ConfigMap says.
func readerOf(data map[string]string) *Reader {
	r := New(Options{Config: onlyUsing(kubevip.Name), Interface: "eth9"}, nil)
	r.config = kubevip.Parse(&corev1.ConfigMap{Data: data})
	return r
}

func TestWhoLeases(t *testing.T) {
	for name, c := range map[string]struct {
		service *corev1.Service
		want    bool
	}{
		"asks for it":         {serviceOf("", v4, kubevip.AnnotationAddresses, "0.0.0.0"), true},
		"of the other family": {serviceOf("", v4, kubevip.AnnotationAddresses, "::"), false},
		"is on such a pool":   {serviceOf("", v4, native.AnnotationDHCP, "IPv4"), true},
		"asks for an address": {serviceOf("", v4, native.AnnotationDHCP, "IPv4", kubevip.AnnotationAddresses, "192.0.2.9"), false},
		"asks for nothing":    {serviceOf("192.0.2.7", v4), false},
	} {
		if got := readerOf(nil).Service(c.service).Lease != nil; got != c.want {
			t.Errorf("%s: leases %v, want %v", name, got, c.want)
		}
	}
}

// Without kube-vip's ConfigMap, and in a class that does not list kube-vip first, what
// Services say about DHCP and interfaces counts for nothing.
func TestNotSwitchedOn(t *testing.T) {
	s := serviceOf("192.0.2.7", v4, native.AnnotationDHCP, "IPv4", kubevip.AnnotationAddresses, "0.0.0.0", kubevip.AnnotationInterface, "eth1",
		kubevip.AnnotationHardwareAddress, "02:00:00:00:00:07", kubevip.AnnotationRequestedIP, "192.0.2.70")
	for name, c := range map[string]struct {
		dialects []lb.Dialect
		data     *corev1.ConfigMap
		want     bool
	}{
		"no ConfigMap":               {[]lb.Dialect{lb.Native, kubevip.Name}, nil, false},
		"not read at all":            {[]lb.Dialect{lb.Native}, &corev1.ConfigMap{}, false},
		"a ConfigMap":                {[]lb.Dialect{lb.Native, kubevip.Name}, &corev1.ConfigMap{}, true},
		"a class that is kube-vip's": {[]lb.Dialect{kubevip.Name}, nil, true},
	} {
		r := New(Options{Config: onlyUsing(c.dialects...)}, nil)
		r.config = kubevip.Parse(c.data)
		got := r.Service(s)
		if leases := got.Lease != nil; leases != c.want || (got.Interface == "eth1") != c.want || got.Request.DHCP[lb.IPv4] != c.want || len(got.Request.Leased) > 0 != c.want {
			t.Errorf("%s: leases %v, on %q", name, leases, got.Interface)
		}
	}
}

// A lease that the controller refuses because of a quota is not asked for.
func TestRefusedByQuota(t *testing.T) {
	s := serviceOf("", v4, kubevip.AnnotationAddresses, "0.0.0.0")
	s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Status: metav1.ConditionFalse, Reason: string(lb.QuotaExceeded)}}
	if readerOf(nil).Service(s).Lease != nil {
		t.Error("leases")
	}
}

// What a Service publishes is taken for a lease if it may be one: not if it is from
// a pool, and the Service has just come to want a lease.
func TestWhatMayBeALease(t *testing.T) {
	ready := []metav1.Condition{{Type: kubeapi.ConditionReady, Status: metav1.ConditionTrue}}
	for name, c := range map[string]struct {
		marked     string
		conditions []metav1.Condition
		want       string
	}{
		"of kube-vip":                   {want: "192.0.2.7"},
		"of Fairlead":                   {marked: "IPv4", conditions: ready, want: "192.0.2.7"},
		"of a pool":                     {conditions: ready, want: "invalid IP"},
		"of a pool, of the other":       {marked: "IPv6", conditions: ready, want: "invalid IP"},
		"of both families, one of them": {marked: "IPv4,IPv6", conditions: ready, want: "192.0.2.7"},
	} {
		s := serviceOf("192.0.2.7", v4, kubevip.AnnotationAddresses, "0.0.0.0", native.AnnotationDHCP, c.marked)
		s.Status.Conditions = c.conditions
		if got := readerOf(nil).Service(s).Lease.Published[lb.IPv4].String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What a Service asks of a DHCP server; what cannot be used is left out.
func TestWhatIsAskedOfServers(t *testing.T) {
	r := readerOf(map[string]string{"cidr-global": "0.0.0.0/32,::/128", "interface-shop": "eth7"})
	s := serviceOf("", dual, native.AnnotationDHCP, "IPv4,IPv6", kubevip.AnnotationHostname, "web", kubevip.AnnotationHardwareAddress, "02:00:00:00:00:07", kubevip.AnnotationRequestedIP, "192.0.2.70")
	w := r.Service(s).Lease
	if w.Families != [2]bool{true, true} || w.Interface != "eth7" || w.Hostname != "web" || w.MAC.String() != "02:00:00:00:00:07" || w.Requested != netip.MustParseAddr("192.0.2.70") || w.Pool.Dialect != kubevip.Name {
		t.Errorf("%+v", w)
	}
	s.Annotations[kubevip.AnnotationHostname], s.Annotations[kubevip.AnnotationHardwareAddress], s.Annotations[kubevip.AnnotationRequestedIP] = strings.Repeat("x", 300), "01:00:5e:00:00:12", "0.0.0.0"
	if w := r.Service(s).Lease; w.Hostname != "" || w.MAC != nil || w.Requested.IsValid() {
		t.Errorf("%+v", w)
	}
}

// The interface that is named nearest to the Service counts.
func TestInterface(t *testing.T) {
	r := readerOf(map[string]string{"interface-shop": "eth7"})
	if got := r.Service(serviceOf("", v4, kubevip.AnnotationInterface, " eth1 ")); got.Interface != "eth1" || got.Named {
		t.Errorf("the Service's: %s, named by an administrator: %v", got.Interface, got.Named)
	}
	if got := r.Service(serviceOf("", v4)); got.Interface != "eth7" || !got.Named {
		t.Errorf("the namespace's: %s, named by an administrator: %v", got.Interface, got.Named)
	}
	if got := readerOf(nil).Service(serviceOf("", v4)); got.Interface != "eth9" || !got.Named {
		t.Errorf("the agent's: %s, named by an administrator: %v", got.Interface, got.Named)
	}
	for _, name := range []string{"eth7", "eth9"} {
		if got := r.Service(serviceOf("", v4, kubevip.AnnotationInterface, name)); got.Interface != name || !got.Named {
			t.Errorf("the Service's, which an administrator names as well: %s, %v", got.Interface, got.Named)
		}
	}
}

// Services of other classes and types are not ours.
func TestNotOurs(t *testing.T) {
	r := readerOf(nil)
	other := serviceOf("192.0.2.7", v4)
	class := "example.com/other"
	other.Spec.LoadBalancerClass = &class
	inside := serviceOf("192.0.2.7", v4)
	inside.Spec.Type = corev1.ServiceTypeClusterIP
	if r.Service(other) != nil || r.Service(inside) != nil {
		t.Error("read all the same")
	}
}
