package snapshot

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// movable are two nodes, of which n1 announces the address of a Service that pods on both serve.
func movable(keep *metav1.Duration) []client.Object {
	since := metav1.NewTime(time.Unix(0, 0))
	agent := func(name string, has ...v1alpha1.Announcement) *v1alpha1.Agent {
		return &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.AgentStatus{
			Announced: int32(len(has)), Addresses: has, KubeProxy: v1alpha1.KubeProxyHealthy,
			Interfaces: []v1alpha1.Interface{{Name: "eth0", Up: true, Families: []string{"IPv4"}}},
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: string(lb.AgentReady), LastTransitionTime: since}},
		}}
	}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80}}}}
	web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.16"}}
	web.Status.Conditions = []metav1.Condition{{Type: "fairlead.io/Ready", Status: metav1.ConditionTrue, Reason: string(lb.Ready), LastTransitionTime: since}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	for _, name := range []string{"n1", "n2"} {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}, NodeName: &name, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-" + name}})
	}
	return []client.Object{
		&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.16/30"}, Advertise: v1alpha1.Advertise{KeepConnections: keep}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, node("n1"), node("n2"), web, slice,
		agent("n1", v1alpha1.Announcement{Address: "192.0.2.16", Interface: "eth0", Protocol: "ARP", Since: since, Services: []string{"shop/web"}}), agent("n2"),
	}
}

// What a move costs depends on whether connections are kept: by the pool, by the flags of the
// agents, and in a cloud.
func TestCostOfAMove(t *testing.T) {
	sigma, err := config.Parse([]byte(`{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: prod, classes: [{name: "", backend: cloudsigma}]}`))
	if err != nil {
		t.Fatal(err)
	}
	agentPod := func(args ...string) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: append([]string{"agent"}, args...)}}}}
	}
	for name, test := range map[string]struct {
		config *config.Configuration
		pool   *metav1.Duration
		args   []string
		want   string
	}{
		"defaults":                  {want: costMove},
		"chart":                     {args: []string{"--gossip-port=7947", "--keep-connections=1h"}, want: costMove},
		"pool without":              {pool: &metav1.Duration{}, want: costUnkept},
		"agents without":            {args: []string{"--keep-connections=0s"}, want: costUnkept},
		"a flag and its value":      {args: []string{"--keep-connections", "0s", "--log-level=info"}, want: costUnkept},
		"the pool overrides agents": {pool: &metav1.Duration{Duration: time.Minute}, args: []string{"--keep-connections=0s"}, want: costMove},
		"no gossip":                 {args: []string{"--gossip-port=0", "--keep-connections=15m"}, want: costNoGossip},
		"no gossip, and the last":   {args: []string{"--gossip-port=7947", "--gossip-port=0"}, want: costNoGossip},
		"CloudSigma":                {config: sigma, want: costPlaced},
	} {
		t.Run(name, func(t *testing.T) {
			if test.config == nil {
				test.config = config.Default()
			}
			objects := movable(test.pool)
			if test.config == sigma {
				for _, o := range objects {
					if s, is := o.(*corev1.Service); is {
						s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "fairlead.io/Placed", Status: metav1.ConditionTrue, Reason: "Placed", Message: lb.Carriers{netip.MustParseAddr("192.0.2.16"): {lb.AnyNode}}.String()})
					}
				}
			}
			s, err := Of(time.Unix(60, 0), test.config, objects...)
			if err != nil {
				t.Fatal(err)
			}
			s.Install.readFlags(daemonOf(ptr.To(agentPod(test.args...))))
			p, err := s.PlanDrain(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Moves) != 1 || p.Moves[0].From != "n1" || p.Moves[0].To != "n2" || p.Moves[0].Cost != test.want {
				t.Errorf("%+v, want cost %q", p.Moves, test.want)
			}
		})
	}
}

// A drain leaves pods of DaemonSets, and static ones: what they serve, they go on serving.
func TestDrainLeavesPodsOfDaemonSets(t *testing.T) {
	pod := func(change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-n1"}}
		change(&p)
		return p
	}
	owned := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "web", Controller: ptr.To(true)}}
		}
	}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want string // the node that announces the address, or why none does
	}{
		"of a Deployment": {pod(owned("ReplicaSet")), ""},
		"of a DaemonSet":  {pod(owned("DaemonSet")), "n1"},
		"static":          {pod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }), "n1"},
		"another pod": {pod(func(p *corev1.Pod) {
			owned("DaemonSet")(p)
			p.Name = "other"
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := movable(nil)
			for _, o := range objects {
				switch o := o.(type) {
				case *corev1.Service:
					o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				case *discoveryv1.EndpointSlice: // only the node that is drained serves
					o.Endpoints = o.Endpoints[:1]
				}
			}
			s, err := Of(time.Unix(60, 0), config.Default(), objects...)
			if err != nil {
				t.Fatal(err)
			}
			s.leave([]corev1.Pod{test.pod})
			p, err := s.PlanDrain(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			got := "n1" // nothing moves
			if len(p.Moves) > 0 {
				got = p.Moves[0].To
			}
			if got != test.want {
				t.Errorf("the address goes to %q, want %q: %+v", got, test.want, p.Moves)
			}
		})
	}
}
