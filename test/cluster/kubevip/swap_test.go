package kubevip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/site"
)

// Kube-vip's cloud provider is replaced, then kube-vip as well, and both come back:
// every Service keeps its addresses and answers there.
func TestReplaceKubeVIPAndBack(t *testing.T) {
	showLogs(t)
	provider := standIn(t)
	installTheirs(t)
	shell(t, "kubectl apply -f "+provider)
	shell(t, "kubectl rollout status --namespace kube-system deployment/kube-vip-cloud-provider --timeout=5m")
	shell(t, "kubectl apply -f - <<END"+daemonSet+"END")
	kubevip := announce(t, "node1", addresses(theirs)...)
	answers(t, "kube-vip announces", theirs)

	// In the provider's place, beside kube-vip.
	before := versions(t)
	connections := connect(theirs)
	guided(t, "kubectl get deployment kube-vip-cloud-provider --namespace kube-system --output jsonpath='{.spec.template.spec.containers[0].env}'")
	guided(t, "helm template fairlead charts/fairlead --namespace kube-system --set kubeVip.provider=true,kubeVip.names=true,controller.replicas=1")
	guided(t, "kubectl apply -f deploy/kube-vip.yaml")
	guided(t, "kubectl rollout status --namespace kube-system deployment/kube-vip-cloud-provider")
	fresh := leadingAside("default", "fresh", 80)
	createAside(t, fresh)
	eventually(t, "a new Service has an address that is free", func() error {
		err := api.Get(t.Context(), kube.ObjectKeyFromObject(fresh), fresh)
		if err == nil && (fresh.Annotations["kube-vip.io/loadbalancerIPs"] != "10.77.0.200" || fresh.Spec.LoadBalancerIP != "10.77.0.200" || fresh.Labels["implementation"] != "kube-vip") {
			err = fmt.Errorf("it is %v, %q", fresh.ObjectMeta, fresh.Spec.LoadBalancerIP)
		}
		return err
	})
	kept(t, "in the provider's place", before)
	eventually(t, "events tell of it", func() error {
		if told := guided(t, "kubectl get events --all-namespaces --field-selector source=fairlead"); !strings.Contains(told, "EnsuredLoadBalancer") || !strings.Contains(told, "service/fresh") {
			return fmt.Errorf("they are\n%s", told)
		}
		return nil
	})
	guided(t, "kubectl describe configmap kubevip --namespace kube-system")
	connected(t, "in the provider's place", connections, 0, 0)

	// And back, with the new Service.
	shell(t, "kubectl apply -f "+provider)
	guided(t, "kubectl delete clusterrole,role,rolebinding,secret --namespace kube-system --selector app.kubernetes.io/name=fairlead,component=kube-vip-cloud-provider")
	guided(t, "kubectl rollout status --namespace kube-system deployment/kube-vip-cloud-provider")
	understood(t, fresh)
	kept(t, "back to the provider", before)

	// In the place of both. What is leased needs a DHCP server on the LAN.
	leased := slices.IndexFunc(theirs, func(l left) bool { return l.leased != "" })
	gone(t, unkept(t, theirs[leased]))
	gone(t, unkept(t, left{namespace: fresh.Namespace, name: fresh.Name}))
	rest := slices.Delete(slices.Clone(theirs), leased, leased+1)
	connections = connect(rest)
	guided(t, "kubectl scale --namespace kube-system deployment/kube-vip-cloud-provider --replicas=0")
	guided(t, "helm install fairlead charts/fairlead --namespace fairlead-system --create-namespace --wait")
	t.Cleanup(func() { removeKinds(t) })
	answers(t, "Fairlead is beside kube-vip", rest)
	guided(t, "kubectl delete daemonset --namespace kube-system kube-vip-ds")
	kubevip.stop()
	announcedByAgents(t, rest)
	guided(t, "kubectl get agents")
	answers(t, "kube-vip is gone", rest)
	connected(t, "in the place of both", connections, switches, 2*time.Second)
	kept(t, "in the place of both", nil)
	fresh = leadingAside("default", "new", 80)
	createAside(t, fresh)
	answers(t, "a new Service", []left{{namespace: "default", name: "new", port: 80, annotation: "10.77.0.200"}})
	gone(t, theirs[len(theirs)-1].object()) // though the provider, whose finalizer it has, is not there
	rest = rest[:len(rest)-1]
	if said := shell(t, "kubectl logs --namespace fairlead-system --selector app.kubernetes.io/name=fairlead --tail=-1"); strings.Contains(said, "forbidden") {
		t.Errorf("somebody may not do what they try:\n%s", said)
	}

	// And back.
	guided(t, "kubectl annotate service NAME kube-vip.io/loadbalancerIPs=ADDRESS", "NAME", "new", "ADDRESS", "10.77.0.200")
	guided(t, "kubectl label service NAME implementation=kube-vip", "NAME", "new")
	rest = append(rest, left{namespace: "default", name: "new", port: 80, annotation: "10.77.0.200"})
	answers(t, "it asks for what it has", rest)
	connections = connect(rest)
	guided(t, "kubectl scale --namespace fairlead-system deployment/fairlead-controller --replicas=0")
	guided(t, "kubectl scale --namespace kube-system deployment/kube-vip-cloud-provider --replicas=1")
	kubevip = announce(t, "node1", addresses(rest)...)
	guided(t, "helm uninstall fairlead --namespace fairlead-system --wait")
	eventually(t, "all pods are gone", func() error {
		var pods corev1.PodList
		err := api.List(t.Context(), &pods, kube.InNamespace("fairlead-system"))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	answers(t, "kube-vip is back", rest)
	connected(t, "back to both", connections, switches, 2*time.Second)
	for _, l := range rest {
		understood(t, &corev1.Service{ObjectMeta: l.object().ObjectMeta})
	}
	kubevip.stop()
	clean(t)
}

// switches is how often a client may follow another one while kube-vip and Fairlead both
// announce an address.
const switches = 2

// clean: nothing of ours is on any node.
func clean(t *testing.T) {
	t.Helper()
	for _, node := range []string{"node1", "node2", "node3"} {
		out, err := cluster.Exec(t.Context(), node, "sh", "-c", "nft list tables; ip -o address")
		if err != nil || strings.Contains(string(out), "fairlead") {
			t.Errorf("%s is not clean: %v\n%s", node, err, out)
		}
		for _, a := range addresses(theirs) {
			if strings.Contains(string(out), " "+a.String()+"/") {
				t.Errorf("%s has the address %s", node, a)
			}
		}
	}
}

// daemonSet has the name of kube-vip's, and does nothing: see announcer.
const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-vip-ds, namespace: kube-system}
spec:
  selector: {matchLabels: {name: kube-vip-ds}}
  template:
    metadata: {labels: {name: kube-vip-ds}}
    spec:
      containers:
      - name: kube-vip
        image: ` + sandbox.WebImage + `
        command: [/guest, pause]
`

func addresses(all []left) (out []netip.Addr) {
	for _, l := range all {
		out = append(out, l.served()...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func ports(all []left) (out []netip.AddrPort) {
	for _, l := range all {
		for _, a := range l.served() {
			out = append(out, netip.AddrPortFrom(a, uint16(l.port)))
		}
	}
	return out
}

// answers: every Service does, at all its addresses, from the client host.
func answers(t *testing.T, when string, all []left) {
	t.Helper()
	for _, to := range ports(all) {
		eventually(t, when+": "+to.String()+" answers", func() error { return client.Greet(t.Context(), cluster, to) })
	}
}

func connect(all []left) *client.Connections { return client.Connect(cluster, ports(all)...) }

// connected ends the connections: none failed that so many moves of its address do not
// explain.
func connected(t *testing.T, way string, c *client.Connections, moves int, outage time.Duration) {
	t.Helper()
	for _, r := range c.Stop() {
		t.Logf("%s: %s: %d connections made, longest gap %v, failed: %v", way, r.To, len(r.Made), r.Gap.Round(time.Millisecond), r.Failed)
		if failed := r.Unexplained(moves, client.Reset); len(failed) > 0 || r.Outage() > outage {
			t.Errorf("%s: %s: longest outage %v, failed: %v", way, r.To, r.Outage(), failed)
		}
	}
}

// versions returns the versions of all Services.
func versions(t *testing.T) map[kube.ObjectKey]string {
	t.Helper()
	var list corev1.ServiceList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[kube.ObjectKey]string{}
	for i := range list.Items {
		out[kube.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].ResourceVersion
	}
	return out
}

// kept: every Service that is there says and publishes what it did, and was not
// written at all since before, unless it lacked something or is told something.
func kept(t *testing.T, when string, before map[kube.ObjectKey]string) {
	t.Helper()
	for _, l := range theirs {
		var s corev1.Service
		if err := api.Get(t.Context(), l.key(), &s); kube.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err != nil {
			continue
		}
		var published []netip.Addr
		for _, in := range s.Status.LoadBalancer.Ingress {
			published = append(published, netip.MustParseAddr(in.IP))
		}
		if s.Annotations["kube-vip.io/loadbalancerIPs"] != l.annotation || s.Spec.LoadBalancerIP != l.field || !slices.Equal(published, l.served()) || !slices.Equal(s.Finalizers, l.object().Finalizers) {
			t.Errorf("%s: %s has %v, %q, %v", when, l.name, s.ObjectMeta, s.Spec.LoadBalancerIP, published)
		}
		noted := s.Annotations["fairlead.io/given"]+s.Annotations["fairlead.io/asked"] != ""
		if v := before[l.key()]; v != "" && l.label && s.Annotations["fairlead.io/reason"] == "" && !noted && v != s.ResourceVersion {
			t.Errorf("%s: %s was written without need: %v", when, l.name, s.ObjectMeta)
		}
	}
}

// understood: what is written on the Service is as kube-vip's cloud provider reads
// it.
func understood(t *testing.T, s *corev1.Service) {
	t.Helper()
	if err := api.Get(t.Context(), kube.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	text := s.Annotations["kube-vip.io/loadbalancerIPs"]
	for a := range strings.SplitSeq(text, ",") {
		if _, err := netip.ParseAddr(a); err != nil {
			t.Errorf("%s: the annotation %q would stop the provider: %v", s.Name, text, err)
		}
	}
	if s.Labels["implementation"] != "kube-vip" {
		t.Errorf("%s: without its label the provider does not see that %s are taken", s.Name, text)
	}
}

// unkept returns a Service as it is, without its finalizer.
func unkept(t *testing.T, l left) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := api.Get(t.Context(), l.key(), &s); err != nil {
		t.Fatal(err)
	}
	s.Finalizers = nil
	if err := api.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// announcedByAgents waits until the agents of the nodes say that they have the
// addresses, one agent each, and until that is on the Services.
func announcedByAgents(t *testing.T, all []left) {
	t.Helper()
	eventually(t, "agents announce everything", func() error {
		where, err := site.Announced(t.Context(), api)
		if err != nil {
			return err
		}
		for _, a := range addresses(all) {
			if len(where[a.String()]) != 1 {
				return fmt.Errorf("%s is announced by %v", a, where[a.String()])
			}
		}
		for _, l := range all {
			var s corev1.Service
			if err := api.Get(t.Context(), l.key(), &s); err != nil {
				return err
			}
			if host := s.Annotations["kube-vip.io/vipHost"]; host != where[l.served()[0].String()][0] {
				return fmt.Errorf("%s is said to be announced by %s, and is by %v", l.name, host, where[l.served()[0].String()])
			}
		}
		return nil
	})
}

func removeKinds(t *testing.T) {
	t.Helper()
	if _, err := site.Shell(context.WithoutCancel(t.Context()), cluster, "kubectl delete crd --all"); err != nil {
		t.Error(err)
	}
}
