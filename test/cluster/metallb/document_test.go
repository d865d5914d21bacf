package metallb

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/tree"
)

// floating is the address of the gateway; the nodes' LAN has it.
const floating = "10.77.0.250"

const (
	gatewayNamespace = "envoy-gateway-system"
	gatewayName      = "envoy-envoy-gateway-system-eg-5391c79d"
)

var page = netip.AddrPortFrom(netip.MustParseAddr(floating), 80)

// A floating address for Envoy Gateway, step by step as MetalLB's people set it up
// beside a controller that serves the Services without a class: installation,
// verification, failover, and the way back.
func TestFloatingAddressForGateway(t *testing.T) {
	showLogs(t)
	startGateway(t)
	untouched := foreignService(t)
	sh(t, "helm install metallb charts/fairlead --namespace metallb-system --create-namespace --set loadBalancerClass=metallb --wait --set image.tag="+tag)
	t.Cleanup(func() { forget(t) })
	applyExample(t, "metallb/ipaddresspool.yaml", "metallb/l2advertisement.yaml")
	createGateway(t)

	t.Run("verify", verify)
	t.Run("status", nodeIsTold)
	t.Run("drain", drained)
	t.Run("local", localPolicy)
	t.Run("again", createdAgain)
	t.Run("untouched", func(t *testing.T) { stillUntouched(t, untouched) })
	t.Run("rollback", rolledBack)
}

// applyExample applies files of examples/cdev as cdev would, for this LAN.
func applyExample(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		parsed, err := template.ParseFiles(tree.Path("examples/cdev", path))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, map[string]any{"variables": map[string]string{"node_external_ip": floating}}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(file, bytes.ReplaceAll(text.Bytes(), []byte("ens3"), []byte("eth0")), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "apply "+path, func() error {
			_, err := trySh(t.Context(), "kubectl apply -f "+file)
			return err
		})
	}
}

// startGateway has pods on every node that stand for Envoy's.
func startGateway(t *testing.T) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gatewayNamespace}})
	sh(t, "sed 's/namespace: default/namespace: "+gatewayNamespace+"/; /^---/,$d' examples/web.yaml | kubectl apply -f -")
	sh(t, "kubectl rollout status -n "+gatewayNamespace+" deployment/web --timeout=5m")
}

// createGateway makes the Service that Envoy Gateway makes of the EnvoyProxy in
// examples/cdev.
func createGateway(t *testing.T) {
	t.Helper()
	class := "metallb"
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: gatewayNamespace, Name: gatewayName,
		Annotations: map[string]string{"metallb.universe.tf/loadBalancerIPs": floating}}}
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	s.Spec.Selector = map[string]string{"app": "web"}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http-80", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	if err := api.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// foreignService is one without a class, for somebody else to serve.
func foreignService(t *testing.T) *corev1.Service {
	t.Helper()
	s := leadingAside("project")
	createAside(t, s)
	return s
}

// verify runs the commands by which people see that it works.
func verify(t *testing.T) {
	pods := sh(t, "kubectl get pods -n metallb-system -o wide")
	for _, node := range nodes {
		if !regexp.MustCompile(`(?m)^metallb-\S*speaker-\S+ +1/1 +Running +0 .* ` + node + ` `).MatchString(pods) {
			t.Errorf("no speaker runs on %s:\n%s", node, pods)
		}
	}
	if !regexp.MustCompile(`(?m)^metallb-\S*controller-\S+ +1/1 +Running +0 `).MatchString(pods) {
		t.Errorf("no controller runs:\n%s", pods)
	}
	objects := sh(t, "kubectl get ipaddresspool,l2advertisement -n metallb-system")
	for _, want := range []string{"ipaddresspool.metallb.io/envoy-gateway-pool", "l2advertisement.metallb.io/envoy-gateway-l2", `["` + floating + `/32"]`, `["eth0"]`} {
		if !strings.Contains(objects, want) {
			t.Errorf("there is no %s:\n%s", want, objects)
		}
	}
	eventually(t, "the Service shows its address", func() error {
		if out := sh(t, "kubectl get svc -n envoy-gateway-system"); !strings.Contains(out, floating) {
			return fmt.Errorf("it shows\n%s", out)
		}
		return nil
	})
	eventually(t, "a speaker says so", func() error {
		const want = `"serviceAnnounced","ips":["` + floating + `"],"protocol":"layer2"`
		out, err := trySh(t.Context(), "kubectl logs -n metallb-system -l app.kubernetes.io/component=speaker --tail=50 | grep serviceAnnounced")
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("they say\n%s", out)
		}
		return err
	})
	eventually(t, "the page is there", func() error {
		_, err := client.Get(t.Context(), cluster, page)
		return err
	})
}

// nodeIsTold: the event, MetalLB's status object and the ARP answers name one node.
func nodeIsTold(t *testing.T) {
	node := announcer(t)
	service := gateway(t)
	eventually(t, "events tell of the address and of the node", func() error {
		var events corev1.EventList
		if err := api.List(t.Context(), &events, kube.InNamespace(gatewayNamespace)); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.UID == service.UID {
				seen = append(seen, e.Reason+": "+e.Message)
			}
		}
		for reason, about := range map[string]string{"IPAllocated": floating, "nodeAssigned": node} {
			if !slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, reason+": ") && strings.Contains(s, about) }) {
				return fmt.Errorf("none is %s about %s: %q", reason, about, seen)
			}
		}
		return nil
	})
	arp(t, node)
}

// announcer is the node that MetalLB's status object names.
func announcer(t *testing.T) (node string) {
	t.Helper()
	eventually(t, "one status object tells the node", func() error {
		var list metallbapi.ServiceL2StatusList
		if err := api.List(t.Context(), &list, kube.InNamespace(namespace), kube.MatchingLabels{
			metallbapi.LabelServiceName: gatewayName, metallbapi.LabelServiceNamespace: gatewayNamespace}); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		s := list.Items[0].Status
		if s.Node == "" || s.ServiceName != gatewayName || len(s.Interfaces) != 1 || s.Interfaces[0].Name != "eth0" {
			return fmt.Errorf("it says %+v", s)
		}
		node = s.Node
		return nil
	})
	return node
}

// arp wants one node, or nobody, to answer for the address on the LAN.
func arp(t *testing.T, want ...string) {
	t.Helper()
	asker, err := client.Ask(cluster, page.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	const calm = time.Second
	since := time.Now()
	eventually(t, fmt.Sprintf("%v and nobody else answers", want), func() error {
		if got := asker.Nodes(since); len(got) > 0 && !slices.Equal(got, want) || len(want) > 0 && len(got) == 0 {
			since = time.Now()
			return fmt.Errorf("%v do", got)
		}
		if time.Since(since) < calm {
			return fmt.Errorf("not yet for %v", calm)
		}
		return nil
	})
}

func gateway(t *testing.T) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := api.Get(t.Context(), kube.ObjectKey{Namespace: gatewayNamespace, Name: gatewayName}, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// drained: the announcing node is drained while a client fetches the page.
func drained(t *testing.T) {
	former := announcer(t)
	requests := client.Browse(cluster, page)
	sh(t, "kubectl drain "+former+" --ignore-daemonsets --delete-emptydir-data --timeout=5m")
	var node string
	eventually(t, "another node announces it", func() error {
		if node = announcer(t); node == former {
			return fmt.Errorf("%s does", former)
		}
		return nil
	})
	out := sh(t, "kubectl logs -n metallb-system -l app.kubernetes.io/component=speaker --tail=50 --prefix | grep serviceAnnounced")
	if strings.Count(out, floating) < 2 {
		t.Errorf("no second speaker says that it announces the address:\n%s", out)
	}
	sh(t, "kubectl uncordon "+former)
	arp(t, node)
	for _, r := range requests.Stop() {
		t.Logf("%d requests, longest gap %v, failed: %v", len(r.Made), r.Gap.Round(time.Millisecond), r.Failed)
		if failed := r.Unexplained(1, client.Late); len(failed) > 0 {
			t.Errorf("requests failed: %v", failed)
		}
	}
	sh(t, "kubectl rollout status -n "+gatewayNamespace+" deployment/web --timeout=5m")
}

// localPolicy: only a node with a pod that serves announces the address, and the
// pod sees who asks.
func localPolicy(t *testing.T) {
	sh(t, "kubectl scale -n "+gatewayNamespace+" deployment/web --replicas=1")
	sh(t, "kubectl patch service -n "+gatewayNamespace+" "+gatewayName+` --type=merge -p '{"spec":{"externalTrafficPolicy":"Local"}}'`)
	follow := func() (node string) {
		t.Helper()
		eventually(t, "the node of the pod announces it", func() error {
			var pods corev1.PodList
			if err := api.List(t.Context(), &pods, kube.InNamespace(gatewayNamespace), kube.MatchingLabels{"app": "web"}); err != nil {
				return err
			}
			pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
			if len(pods.Items) != 1 {
				return fmt.Errorf("there are %d pods", len(pods.Items))
			}
			node = pods.Items[0].Spec.NodeName
			if now := announcer(t); now != node {
				return fmt.Errorf("%s does, the pod is on %s", now, node)
			}
			answer, err := client.Get(t.Context(), cluster, page)
			if err == nil && !(strings.Contains(answer, " on "+node+" ") && strings.Contains(answer, "answers 10.77.0.100:")) {
				err = fmt.Errorf("the page is %q", answer)
			}
			return err
		})
		return node
	}
	former := follow()
	sh(t, "kubectl cordon "+former)
	sh(t, "kubectl delete pod -n "+gatewayNamespace+" -l app=web --wait=false")
	if node := follow(); node == former {
		t.Errorf("the pod is on %s again", node)
	}
	sh(t, "kubectl uncordon "+former)
	sh(t, "kubectl patch service -n "+gatewayNamespace+" "+gatewayName+` --type=merge -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`)
	sh(t, "kubectl scale -n "+gatewayNamespace+" deployment/web --replicas=3")
	sh(t, "kubectl rollout status -n "+gatewayNamespace+" deployment/web --timeout=5m")
}

// createdAgain: a Service that is deleted leaves nothing, and has the same address
// when it is created again.
func createdAgain(t *testing.T) {
	sh(t, "kubectl delete svc -n envoy-gateway-system "+gatewayName)
	eventually(t, "nothing is said of it any more", func() error {
		var list metallbapi.ServiceL2StatusList
		err := api.List(t.Context(), &list)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d status objects", len(list.Items))
		}
		return err
	})
	arp(t)
	createGateway(t)
	announcer(t)
	if in := gateway(t).Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != floating {
		t.Errorf("it has %v", in)
	}
	eventually(t, "the page is there", func() error {
		_, err := client.Get(t.Context(), cluster, page)
		return err
	})
}

// stillUntouched: nothing was done to a Service of another class.
func stillUntouched(t *testing.T, was *corev1.Service) {
	var is corev1.Service
	if err := api.Get(t.Context(), kube.ObjectKeyFromObject(was), &is); err != nil {
		t.Fatal(err)
	}
	if is.ResourceVersion != was.ResourceVersion {
		t.Errorf("it was changed: %+v", is)
	}
	var events corev1.EventList
	if err := api.List(t.Context(), &events, kube.InNamespace(was.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == was.UID {
			t.Errorf("somebody was told of it: %s: %s", e.Reason, e.Message)
		}
	}
}

// rolledBack: the release goes; nobody answers for the address; nothing of ours
// is on nodes, or holds the Service; and the address works as an external one.
func rolledBack(t *testing.T) {
	if out := sh(t, "kubectl logs --namespace metallb-system --selector app.kubernetes.io/name=fairlead --tail=-1"); strings.Contains(out, "forbidden") {
		t.Errorf("somebody may not do what they try:\n%s", out)
	}
	sh(t, "helm uninstall metallb -n metallb-system --wait")
	podsGone(t, namespace)
	arp(t)
	cleanNodes(t, floating)
	eventually(t, "no status object is left", func() error {
		out, err := trySh(t.Context(), "kubectl get servicel2statuses,configurationstates -n metallb-system -o name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("there are\n%s", out)
		}
		return err
	})
	if s := gateway(t); len(s.Finalizers) > 0 || len(s.OwnerReferences) > 0 {
		t.Errorf("it has %v, %v", s.Finalizers, s.OwnerReferences)
	}
	// What stays, says the guide; and how it goes.
	sh(t, "kubectl patch service -n "+gatewayNamespace+" "+gatewayName+` --subresource=status --type=merge -p '{"status":{"loadBalancer":null,"conditions":null}}'`)
	sh(t, "kubectl annotate service -n "+gatewayNamespace+" "+gatewayName+" metallb.io/ip-allocated-from-pool- fairlead.io/allocated-from-")
	if s := gateway(t); len(s.Status.Conditions) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 || len(s.Annotations) != 1 {
		t.Errorf("of ours is left: %v, %v", s.Status, s.Annotations)
	}
	if _, err := client.Get(t.Context(), cluster, page); err == nil {
		t.Error("the page is there without anybody who announces it")
	}

	sh(t, "kubectl patch service -n "+gatewayNamespace+" "+gatewayName+` --type=merge -p '{"spec":{"externalIPs":["`+floating+`"]}}'`)
	on := func(verb string) error {
		_, err := cluster.Exec(context.WithoutCancel(t.Context()), "node1", "ip", "address", verb, floating+"/32", "dev", "eth0")
		return err
	}
	if err := on("add"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := on("delete"); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the page is there", func() error {
		_, err := client.Get(t.Context(), cluster, page)
		return err
	})
}

// forget removes what the release and the steps have left on purpose.
func forget(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	_, _ = trySh(ctx, "helm uninstall metallb -n metallb-system --wait") // if a test has failed before
	remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	removeKinds(t)
}
