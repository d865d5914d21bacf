package stories

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

// What kube-vip's cloud provider writes, for kube-vip to read: in the words of its
// documents, not in those of the code that is tested.
const (
	addressesNote = "kube-vip.io/loadbalancerIPs"
	interfaceNote = "kube-vip.io/serviceInterface"
	reasonNote    = "fairlead.io/reason" // in place of a condition: the status is kube-vip's
	cleanup       = "service.kubernetes.io/load-balancer-cleanup"
)

// given compares all that is written on a Service that got addresses.
func (s *story) given(args []string) error {
	svc, err := s.provided(args[0], args[1])
	if err != nil {
		return err
	}
	iface := ""
	if len(args) > 2 {
		iface = args[2]
	}
	first, _, _ := strings.Cut(args[1], ",")
	switch {
	case svc.Spec.LoadBalancerIP != first:
		return fmt.Errorf("spec.loadBalancerIP is %q", svc.Spec.LoadBalancerIP)
	case svc.Annotations[interfaceNote] != iface:
		return fmt.Errorf("interface is %q", svc.Annotations[interfaceNote])
	case svc.Annotations["fairlead.io/given"] != args[1]:
		return fmt.Errorf("annotations are %v", svc.Annotations)
	}
	return nil
}

// honoured compares what is written on a Service that asks for its addresses
// itself: its own words stay.
func (s *story) honoured(args []string) error {
	svc, err := s.provided(args[0], args[1])
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(args[1], ",")
	if has := svc.Spec.LoadBalancerIP; has != "" && has != first {
		return fmt.Errorf("spec.loadBalancerIP is %q", has)
	}
	if note, ok := svc.Annotations["fairlead.io/given"]; ok && svc.Annotations["fairlead.io/asked"] == "" {
		return fmt.Errorf("it was given %q", note)
	}
	return nil
}

// provided checks what kube-vip needs on every Service that it is to announce.
// What is in the status is kube-vip's.
func (s *story) provided(name, addresses string) (*corev1.Service, error) {
	svc, c, err := s.get(name)
	switch {
	case err != nil:
		return nil, err
	case svc.Annotations[addressesNote] != addresses:
		return nil, fmt.Errorf("addresses are %q; condition is %v", svc.Annotations[addressesNote], c)
	case svc.Labels["implementation"] != "kube-vip" || !slices.Contains(svc.Finalizers, cleanup):
		return nil, fmt.Errorf("labels %v, finalizers %v", svc.Labels, svc.Finalizers)
	case c != nil && !reasons.All[lb.Code(c.Reason)].Ready:
		return nil, fmt.Errorf("condition is %v", c)
	case len(svc.Status.Conditions) > 0:
		return nil, fmt.Errorf("conditions are %v", svc.Status.Conditions)
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if !slices.Contains(strings.Split(addresses, ","), in.IP) && !strings.Contains(addresses, "0.0.0.0") {
			return nil, fmt.Errorf("the status has %v", svc.Status.LoadBalancer.Ingress)
		}
	}
	for _, f := range svc.ManagedFields {
		if f.Manager == "fairlead" && f.Subresource == "status" && strings.Contains(f.FieldsV1.GetRawString(), "f:loadBalancer") {
			return nil, fmt.Errorf("we wrote the status: %s", f.FieldsV1.GetRawString())
		}
	}
	word := "EnsuredLoadBalancer"
	if from := svc.Annotations[native.AnnotationAllocatedFrom]; from != "" && !strings.HasPrefix(from, "kube-vip/") {
		word = "Ready" // who has an address from another kind of pool is told in the words of that
	}
	return svc, s.told([]string{name, word})
}

// refused compares the reason of a Service that has nothing but what it asks for.
func (s *story) refused(args []string) error {
	svc, c, err := s.get(args[0])
	asks := strings.Join(args[2:], ",")
	switch {
	case err != nil:
		return err
	case c == nil || c.Reason != args[1]:
		return fmt.Errorf("condition is %v", c)
	case svc.Annotations[addressesNote] != asks && svc.Spec.LoadBalancerIP != asks:
		return fmt.Errorf("addresses are %q and %q", svc.Annotations[addressesNote], svc.Spec.LoadBalancerIP)
	case len(svc.Status.Conditions) > 0 || svc.Labels["implementation"] != "" || len(svc.Finalizers) > 0 || svc.Annotations[native.AnnotationAllocatedFrom] != "":
		return fmt.Errorf("labels %v, finalizers %v, annotations %v", svc.Labels, svc.Finalizers, svc.Annotations)
	}
	return nil
}

// unprovided says whether nothing is written on svc for kube-vip.
func unprovided(svc *corev1.Service) error {
	for _, key := range []string{addressesNote, interfaceNote, "fairlead.io/given", reasonNote, "kube-vip.io/vipHost"} {
		if value, has := svc.Annotations[key]; has {
			return fmt.Errorf("annotation %s is %q", key, value)
		}
	}
	if svc.Labels["implementation"] != "" || svc.Spec.LoadBalancerIP != "" {
		return fmt.Errorf("labels are %v, spec.loadBalancerIP is %q", svc.Labels, svc.Spec.LoadBalancerIP)
	}
	return nil
}

// reasonOf returns the reason that is written on svc, as if it were a condition.
func reasonOf(svc *corev1.Service) *metav1.Condition {
	code, text, ok := strings.Cut(svc.Annotations[reasonNote], ": ")
	if !ok {
		return nil
	}
	return &metav1.Condition{Type: reasonNote, Reason: code, Message: text}
}

// gone waits until the Service is.
func (s *story) gone(args []string) error {
	_, _, err := s.get(args[0])
	switch {
	case err == nil:
		return errors.New("it is still there")
	case !apierrors.IsNotFound(err):
		return err
	}
	return nil
}
