package metallb

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/site"
)

// marker is on what was there before us.
const marker = "example.org/was-there-before"

// theirs are the Services of a cluster with MetalLB, and the addresses they hold:
// not those that would be given to them today.
var theirs = map[string]netip.Addr{
	"web":     netip.MustParseAddr("10.77.0.205"), // announced by node1
	"shop":    netip.MustParseAddr("10.77.0.203"), // by node2
	"mail":    netip.MustParseAddr("10.77.0.215"), // by node3
	"asks":    netip.MustParseAddr("10.77.0.214"), // for this one
	"shares":  netip.MustParseAddr("10.77.0.212"), // with the next one
	"shares2": netip.MustParseAddr("10.77.0.212"),
}

// A running MetalLB is replaced by Fairlead, and comes back: every Service keeps
// its address, every address its node, and clients hardly notice.
func TestReplaceMetalLBAndBack(t *testing.T) {
	t.Cleanup(func() { removeKinds(t) })
	showLogs(t)
	before := installMetalLB(t)
	addresses := slices.Compact(slices.SortedFunc(maps.Values(theirs), netip.Addr.Compare))
	speakers := speak(t, addresses...)
	world := watch(t, addresses)
	world.answeredFor(t, "MetalLB's speakers", winner)

	// The guide's steps: MetalLB's controller has ended; its webhook goes; ours is
	// installed beside the speakers; the speakers go.
	refused := &metallbapi.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}
	refused.Spec.Addresses = []string{"10.77.0.220/32"}
	eventually(t, "without its controller MetalLB's webhook lets nothing pass", func() error {
		if err := api.Create(t.Context(), refused, kube.DryRunAll); err == nil || !strings.Contains(err.Error(), "webhook") {
			return fmt.Errorf("it says %q", fmt.Sprint(err))
		}
		return nil
	})
	sh(t, "kubectl delete validatingwebhookconfiguration metallb-webhook-configuration")
	// Agents start one after the other, as they do where an image is fetched first;
	// the first one leaves alone what others are going to have.
	const label = "example.org/has-the-image"
	t.Cleanup(func() { _, _ = trySh(context.WithoutCancel(t.Context()), "kubectl label node --all "+label+"-") })
	sh(t, "kubectl label node node1 "+label+"=yes")
	sh(t, "helm install fairlead charts/fairlead --namespace metallb-system --wait --timeout 5m --set image.tag="+tag+
		` --set-string 'agent.nodeSelector.example\.org/has-the-image=yes'`)
	world.answeredFor(t, "MetalLB's speakers and an agent", winner)
	sh(t, "kubectl label node node2 node3 "+label+"=yes")
	world.announcedByAgents(t, winner)
	keptAddresses(t)
	world.answeredFor(t, "both", winner)
	speakers.stop()
	world.answeredFor(t, "Fairlead", winner)
	world.connected(t, "in")
	kindsAreTheirs(t, before)
	servesNewServices(t)
	if failed := sh(t, "kubectl logs --namespace metallb-system --selector app.kubernetes.io/name=fairlead --tail=-1"); strings.Contains(failed, "forbidden") {
		t.Errorf("somebody may not do what they try:\n%s", failed)
	}

	// And back.
	world = watch(t, addresses)
	sh(t, "kubectl scale --namespace metallb-system deployment/fairlead-controller --replicas=0")
	speakers = speak(t, addresses...)
	world.answeredFor(t, "both again", winner)
	sh(t, "helm uninstall fairlead --namespace metallb-system --wait")
	podsGone(t, namespace)
	world.answeredFor(t, "MetalLB again", winner)
	world.connected(t, "back")
	keptAddresses(t)
	kindsAreTheirs(t, before)
	var left []string
	for _, a := range addresses {
		left = append(left, a.String())
	}
	cleanNodes(t, left...)
	speakers.stop()
}

// installMetalLB makes what a cluster with MetalLB has: kinds that know nothing of
// ours, a pool and how it is announced, Services with its status and annotations,
// and its webhook, whose controller has just been stopped.
func installMetalLB(t *testing.T) (kinds map[string]int64) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	kinds = map[string]int64{}
	for _, crd := range rig.BareMetalLBCRDs() {
		crd.Annotations = map[string]string{marker: "true"}
		create(t, crd)
		kinds[crd.Name] = 1
	}
	pool := &metallbapi.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lan"}}
	pool.Spec.Addresses = []string{"10.77.0.200-10.77.0.219"}
	create(t, pool)
	advertisement := &metallbapi.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lan"}}
	advertisement.Spec.IPAddressPools = []string{"lan"}
	create(t, advertisement)
	port := int32(80)
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		s := leadingAside(name)
		s.Annotations = map[string]string{"metallb.io/ip-allocated-from-pool": "lan"}
		switch name {
		case "asks":
			s.Annotations["metallb.universe.tf/loadBalancerIPs"] = theirs[name].String()
		case "shares", "shares2":
			s.Annotations["metallb.io/allow-shared-ip"] = "together"
			s.Spec.Ports[0].Port = port
			port++
		}
		createAside(t, s)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: theirs[name].String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
		if err := api.Status().Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	webhook(t)
	return kinds
}

// webhook makes MetalLB's, for which nobody answers.
func webhook(t *testing.T) {
	t.Helper()
	w := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "metallb-webhook-configuration"}}
	w.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "ipaddresspoolvalidationwebhook.metallb.io", AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail), TimeoutSeconds: ptr.To(int32(1)),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "metallb-webhook-service"}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"metallb.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"ipaddresspools"}},
		}},
	}}
	create(t, w)
}

// leadingAside returns a Service that leads to the server beside the cluster.
func leadingAside(name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Name: "tcp", Port: 80}}
	return s
}

func createAside(t *testing.T, s *corev1.Service) {
	t.Helper()
	create(t, s)
	create(t, site.Aside(s))
}

// onlookers see the addresses from the client host.
type onlookers struct {
	addresses   []netip.Addr
	askers      map[netip.Addr]*client.Asker
	connections *client.Connections
}

// watch waits until all addresses answer, and then begins to ask and to connect.
func watch(t *testing.T, addresses []netip.Addr) *onlookers {
	t.Helper()
	o := &onlookers{addresses: addresses, askers: map[netip.Addr]*client.Asker{}}
	var to []netip.AddrPort
	for _, a := range addresses {
		asker, err := client.Ask(cluster, a)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(asker.Close)
		o.askers[a] = asker
		to = append(to, netip.AddrPortFrom(a, 80))
		eventually(t, a.String()+" answers", func() error { return client.Greet(t.Context(), cluster, to[len(to)-1]) })
	}
	o.connections = client.Connect(cluster, to...)
	return o
}

// answeredFor: for a while every address is answered for by its node alone.
func (o *onlookers) answeredFor(t *testing.T, by string, node func(netip.Addr) string) {
	t.Helper()
	const while = 2 * time.Second
	began := time.Now()
	eventually(t, "time passes", func() error {
		if left := while - time.Since(began); left > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	for _, a := range o.addresses {
		if got := o.askers[a].Nodes(began); !slices.Equal(got, []string{node(a)}) {
			t.Errorf("%s: %s is answered for by %v, want %s", by, a, got, node(a))
		}
		if n := o.askers[a].Unanswered(began); n > int(time.Second/client.Every) {
			t.Errorf("%s: nobody answered %d times in a row for %s", by, n, a)
		}
	}
}

// announcedByAgents waits until the agents of the nodes say that they have the
// addresses.
func (o *onlookers) announcedByAgents(t *testing.T, node func(netip.Addr) string) {
	t.Helper()
	eventually(t, "agents announce everything", func() error {
		where, err := site.Announced(t.Context(), api)
		if err != nil {
			return err
		}
		for _, a := range o.addresses {
			if got := where[a.String()]; !slices.Equal(got, []string{node(a)}) {
				return fmt.Errorf("%s is announced by %v, want %s", a, got, node(a))
			}
		}
		return nil
	})
}

// connected ends the connections: none failed but those that were under way when an address
// moved.
func (o *onlookers) connected(t *testing.T, way string) {
	t.Helper()
	for _, r := range o.connections.Stop() {
		t.Logf("%s: %s: %d connections made, longest gap %v, failed: %v", way, r.To, len(r.Made), r.Gap.Round(time.Millisecond), r.Failed)
		if failed := r.Unexplained(1, client.Reset); len(failed) > 0 || r.Outage() > time.Second {
			t.Errorf("%s: %s: longest outage %v, failed: %v", way, r.To, r.Outage(), r.Failed)
		}
	}
}

// keptAddresses: every Service has the address that it had.
func keptAddresses(t *testing.T) {
	t.Helper()
	for name, want := range theirs {
		var s corev1.Service
		if err := api.Get(t.Context(), kube.ObjectKey{Namespace: "default", Name: name}, &s); err != nil {
			t.Fatal(err)
		}
		in := s.Status.LoadBalancer.Ingress
		if len(in) != 1 || in[0].IP != want.String() || s.Annotations["metallb.io/ip-allocated-from-pool"] != "lan" || len(s.Finalizers) > 0 {
			t.Errorf("%s has %v, annotations %v, finalizers %v; it had %s", name, in, s.Annotations, s.Finalizers, want)
		}
	}
}

// kindsAreTheirs: MetalLB's kinds are as they were.
func kindsAreTheirs(t *testing.T, kinds map[string]int64) {
	t.Helper()
	for name, generation := range kinds {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := api.Get(t.Context(), kube.ObjectKey{Name: name}, &crd); err != nil {
			t.Error(err)
		} else if crd.Generation != generation || crd.Annotations[marker] == "" || crd.Annotations["meta.helm.sh/release-name"] != "" {
			t.Errorf("%s is not as it was: %v", name, crd.ObjectMeta)
		}
	}
}

// servesNewServices: what is created now gets the first free address, by Fairlead.
func servesNewServices(t *testing.T) {
	t.Helper()
	s := leadingAside("new")
	createAside(t, s)
	defer remove(t, s)
	eventually(t, "a new Service has an address", func() error {
		if err := api.Get(t.Context(), kube.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != "10.77.0.200" {
			return fmt.Errorf("it has %v", in)
		}
		return nil
	})
	eventually(t, "it answers", func() error {
		return client.Greet(context.WithoutCancel(t.Context()), cluster, netip.MustParseAddrPort("10.77.0.200:80"))
	})
}
