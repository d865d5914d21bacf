package kubevip

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// announced makes s say that Fairlead announced it, with an address in its status.
func announced(s *corev1.Service, address, sentence string) *corev1.Service {
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Status: metav1.ConditionTrue, Reason: string(lb.Ready), Message: sentence}}
	return s
}

// What is said of a Service besides its marks, which the scripts have.
func TestOutcomes(t *testing.T) {
	ours := left("10.0.0.1", "10.0.0.1", true)
	kept := left("10.0.0.1", "10.0.0.1", true)
	kept.Finalizers = append(kept.Finalizers, "example.com/other")
	leasing := lb.Verdict{Reason: lb.WaitingForLease.With("IPv4")}
	leasing.DHCP[lb.IPv4] = true
	ready := lb.Verdict{Reason: lb.Ready.Say("10.0.0.1", "pool"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	full := lb.Verdict{Reason: lb.InvalidRequest.With("Wrong")}
	const owns = "annotations, labels or spec.loadBalancerIP, which kube-vip reads"
	for name, test := range map[string]struct {
		want lb.Want
		out  lb.Outcome
	}{
		"served":  {served(ours, []lb.Family{lb.IPv4}, ready, ""), lb.Outcome{Reason: ready.Reason, Condition: lb.ConditionGoes, Owns: owns}},
		"waits":   {served(ours, nil, full, ""), lb.Outcome{Reason: full.Reason, Condition: lb.ConditionGoes, Owns: owns}},
		"by DHCP": {served(left("", "", false), []lb.Family{lb.IPv4}, leasing, ""), lb.Outcome{Reason: kubevip.Reasons.With(kubevip.LeftToLease), Condition: lb.ConditionGoes, Owns: owns}},

		"deleted":                       {deleted(ours), lb.Outcome{Gone: true, Tell: []lb.Reason{lb.AddressReleased.With("10.0.0.1", "it is deleted")}}},
		"deleted, others keep it":       {deleted(kept), lb.Outcome{Gone: true}},
		"deleted, had nothing":          {deleted(left("", "", true)), lb.Outcome{Gone: true}},
		"no longer served":              {lb.Want{Service: *kubeapi.Service(ours), Gone: true}, lb.Outcome{Gone: true, Condition: lb.ConditionGoes}},
		"was announced by Fairlead":     {lb.Want{Service: *kubeapi.Service(announced(left("", "", false), "10.0.0.3", "The Service has 10.0.0.3.")), Gone: true}, lb.Outcome{Gone: true, Condition: lb.ConditionGoes, Ingress: []lb.Ingress{}}},
		"kube-vip wrote another since":  {lb.Want{Service: *kubeapi.Service(announced(left("", "", false), "10.0.0.4", "The Service has 10.0.0.3.")), Gone: true}, lb.Outcome{Gone: true, Condition: lb.ConditionGoes}},
		"was announced, and is deleted": {deleted(announced(left("", "", false), "10.0.0.3", "The Service has 10.0.0.3.")), lb.Outcome{Gone: true}},
	} {
		out, err := Backend{}.Sync(t.Context(), test.want)
		if diff := cmp.Diff(test.out, out, cmpopts.IgnoreFields(lb.Outcome{}, "Marks")); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}
