package stories

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/setup"
	"fairlead.io/test/kit/rig"
)

// kubevipCase is one of testdata/kubevip/cases.yaml.
type kubevipCase struct {
	Name    string            `json:"name"`
	Map     map[string]string `json:"map"`
	Before  []kubevipService  `json:"before"`
	Service kubevipService    `json:"service"`
	Want    struct {
		Addresses string `json:"addresses"`
		Interface string `json:"interface"`
		Fails     bool   `json:"fails"`
		Conflict  bool   `json:"conflict"`
	} `json:"want"`
}

type kubevipService struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Policy    string   `json:"policy"`
	Families  []string `json:"families"`
	Ports     []string `json:"ports"`
	Asks      string   `json:"asks"`
	Addresses string   `json:"addresses"` // that kube-vip's cloud provider gave it
	ConfigMap string   `json:"configMap"`
}

// TestKubeVIPCases runs each case against the real API server, with a controller
// that finds what was there before.
func TestKubeVIPCases(t *testing.T) {
	data, err := os.ReadFile("testdata/kubevip/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []kubevipCase
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.run(t) })
	}
	(&story{rig: theRig, t: t}).clean()
}

func (c *kubevipCase) run(t *testing.T) {
	ctx := context.Background()
	(&story{rig: theRig, t: t}).clean()
	where := config.KubeVIPMap{Namespace: "kube-system", Name: "kubevip"}
	if c.Service.ConfigMap != "" {
		where.Namespace, where.Name, _ = strings.Cut(c.Service.ConfigMap, "/")
	}
	setKubeVIPMap(t, where, c.Map)

	c.Service.Name = "svc"
	fresh := c.Service.object(c.Service.Asks + c.Want.Addresses)
	for _, s := range c.Before {
		if s.Addresses == "" { // a younger one, which waits for an address as well
			fresh = create(t, fresh)
			rig.Eventually(t, "the next second", func() error {
				if !time.Now().Truncate(time.Second).After(fresh.CreationTimestamp.Time) {
					return fmt.Errorf("still the same")
				}
				return nil
			})
		}
		o := s.object(s.Addresses)
		o.Labels = map[string]string{"implementation": "kube-vip"}
		o.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": s.Addresses}
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
			o.Spec.LoadBalancerIP, _, _ = strings.Cut(s.Addresses, ",")
		}
		create(t, o)
	}
	theRig.Start(t, func(o *controller.Options) {
		class := config.Class{Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}
		o.Config = &config.Configuration{Classes: []config.Class{class}}
		setup.Add(o, setup.Names{MetalLBNamespace: rig.MetalLBNamespace, KubeVIPMap: where})
	})
	if fresh.UID == "" {
		fresh = create(t, fresh)
	}
	rig.Eventually(t, "the Service is as it should be", func() error {
		var s corev1.Service
		if err := theRig.Client.Get(ctx, client.ObjectKeyFromObject(fresh), &s); err != nil {
			return err
		}
		return c.compare(t, &s)
	})
	for _, b := range c.Before {
		var s corev1.Service
		if err := theRig.Client.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, &s); err != nil {
			t.Fatal(err)
		}
		if has := s.Annotations["kube-vip.io/loadbalancerIPs"]; b.Addresses != "" && b.Type == "" && has != b.Addresses {
			t.Errorf("%s has %q now, had %q", s.Name, has, b.Addresses)
		}
	}
}

func (c *kubevipCase) compare(t *testing.T, s *corev1.Service) error {
	has, want := s.Annotations["kube-vip.io/loadbalancerIPs"], c.Want.Addresses
	told := s.Annotations["fairlead.io/reason"]
	if c.Want.Fails || c.Want.Conflict {
		switch {
		case has != c.Service.Asks || s.Spec.LoadBalancerIP != "" || s.Labels["implementation"] != "":
			t.Fatalf("has %q, %q and labels %v", has, s.Spec.LoadBalancerIP, s.Labels)
		case told == "":
			return fmt.Errorf("not told why")
		case c.Want.Conflict:
			return hasEvent(s, "IPConflict")
		}
		return hasEvent(s, "SyncLoadBalancerFailed")
	}
	first, _, _ := strings.Cut(want, ",")
	switch {
	case has == "":
		return fmt.Errorf("no address, and is told %q", told)
	case has != want || s.Spec.LoadBalancerIP != first:
		t.Fatalf("has %q and %q, want %q; it is told %q", has, s.Spec.LoadBalancerIP, want, told)
	case s.Labels["implementation"] != "kube-vip" || len(s.Finalizers) != 1 || s.Finalizers[0] != "service.kubernetes.io/load-balancer-cleanup":
		t.Fatalf("labels %v, finalizers %v", s.Labels, s.Finalizers)
	case s.Annotations["kube-vip.io/serviceInterface"] != c.Want.Interface:
		t.Fatalf("interface %q", s.Annotations["kube-vip.io/serviceInterface"])
	case len(s.Status.LoadBalancer.Ingress) > 0 || len(s.Status.Conditions) > 0:
		t.Fatal("the status is kube-vip's")
	}
	return hasEvent(s, "EnsuredLoadBalancer")
}

func hasEvent(s *corev1.Service, reason string) error {
	list, err := theRig.Kube.CoreV1().Events(s.Namespace).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
	if err != nil {
		return err
	}
	var seen []string
	for _, e := range list.Items {
		if e.Reason == reason {
			return nil
		}
		seen = append(seen, e.Reason)
	}
	return fmt.Errorf("no event %s, but %q", reason, seen)
}

// object of s, which gets the families of addresses unless it names some.
func (s *kubevipService) object(addresses string) *corev1.Service {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	o.Spec.Type = corev1.ServiceTypeLoadBalancer
	if s.Type != "" {
		o.Spec.Type = corev1.ServiceType(s.Type)
	}
	if s.Asks != "" {
		o.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": s.Asks}
	}
	for _, f := range s.Families {
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(f))
	}
	if len(o.Spec.IPFamilies) == 0 {
		for field := range strings.SplitSeq(addresses, ",") {
			if a, err := lb.ParseAddr(field); err == nil {
				o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(lb.FamilyOf(a).String()))
			}
		}
	}
	policy := corev1.IPFamilyPolicy(s.Policy)
	if policy == "" && len(o.Spec.IPFamilies) > 1 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	if policy != "" {
		o.Spec.IPFamilyPolicy = &policy
	}
	ports := s.Ports
	if len(ports) == 0 {
		ports = []string{"TCP/80"}
	}
	for _, p := range ports {
		protocol, number, _ := strings.Cut(p, "/")
		n, _ := strconv.ParseInt(number, 10, 32)
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: strings.ToLower(p[:3]) + "-" + number, Protocol: corev1.Protocol(protocol), Port: int32(n)})
	}
	return o
}

func create(t *testing.T, o *corev1.Service) *corev1.Service {
	t.Helper()
	ensureNamespace(t, o.Namespace)
	if err := theRig.Client.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	err := theRig.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// setKubeVIPMap replaces the ConfigMap, which goes with the test.
func setKubeVIPMap(t *testing.T, where config.KubeVIPMap, data map[string]string) {
	t.Helper()
	ctx := context.Background()
	ensureNamespace(t, where.Namespace)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: where.Namespace, Name: where.Name}, Data: data}
	if err := theRig.Client.Delete(ctx, cm.DeepCopy()); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err := theRig.Client.Create(ctx, cm); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theRig.Client.Delete(ctx, cm) })
}
