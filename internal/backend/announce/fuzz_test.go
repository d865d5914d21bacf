package announce_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// FuzzSync: whatever a tenant writes on a Service, it is written once, and then there is
// nothing left to write: nobody can have the controller write for ever.
func FuzzSync(f *testing.F) {
	keys := []string{
		native.AnnotationAllocatedFrom, native.AnnotationDHCP, native.AnnotationReason, metallb.AnnotationAllocatedFrom,
		kubevip.AnnotationAddresses, kubevip.AnnotationGiven, kubevip.AnnotationAsked, kubevip.AnnotationInterface, kubevip.AnnotationHost,
	}
	f.Add("edge\nIPv4\nNoPool: no\nlan\n192.0.2.7\n192.0.2.7\n\neth0\nnode1", "192.0.2.7", true, false, false, "node2", uint8(0))
	f.Add("", "2001:db8::9,x", false, true, false, "", uint8(1))
	f.Add("\n\n\n\n0.0.0.0,,\n,\n::\n \n\x01", "a.example", true, true, true, "n", uint8(2))
	f.Fuzz(func(t *testing.T, values, published string, labelled, known, deleting bool, carrier string, what uint8) {
		if !utf8.ValidString(values + published + carrier) {
			return
		}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "1", Annotations: map[string]string{}}}
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		for i, value := range strings.Split(values, "\n") {
			if i < len(keys) && value != "" {
				s.Annotations[keys[i]] = value
			}
		}
		if labelled {
			s.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
			s.Finalizers = []string{lb.CleanupFinalizer, "example.org/other"}
		}
		for text := range strings.SplitSeq(published, ",") {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: text})
		}
		var w lb.Want
		switch what % 4 {
		case 0:
			w = served(t, "192.0.2.7,2001:db8::7 from edge,metallb/lan")
		case 1:
			w = served(t, "192.0.2.7")
		case 2:
			w.Verdict.Reason = lb.InvalidRequest.With("no")
		case 3:
			w.Gone, w.Known = true, known
		}
		w.Carrier = carrier
		out := look(t, s, w, deleting && w.Gone)
		p := kubeapi.Patch(kubeapi.Service(s), &out, noon)
		if p.Object != nil {
			t.Errorf("the object itself is written: %s", p.Object)
		}
		if p.Empty() {
			return
		}
		s = applied(t, s, p.Status)
		again := look(t, s, w, deleting && w.Gone)
		if p := kubeapi.Patch(kubeapi.Service(s), &again, noon); !p.Empty() {
			t.Errorf("after its patch there is another: %s", p.Status)
		}
	})
}
