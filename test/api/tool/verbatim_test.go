package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/migrate"
	"fairlead.io/internal/setup"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// ground is a cluster of its own, with controllers and a scheduler, and kubelets that only
// pretend: pods of Fairlead run in this process, others do nothing.
type ground struct {
	*testing.T
	rig   *rig.Rig
	shell []string // environment
	dir   string
	// routers as each node sees them.
	routers map[string]*agentsim.Routers
	// programs has pods of the controller run the real program. They have these variables,
	// and find others by these names instead of the cluster's DNS.
	programs         bool
	variables, names []string
	// typed counts commands of the page by their beginning, and set has its variables.
	typed map[string]int
	set   string
}

func newGround(t *testing.T, nodes ...string) *ground {
	t.Helper()
	return newGroundWith(t, func(*ground) {}, nodes...)
}

// newGroundWith changes the ground before its kubelets start.
func newGroundWith(t *testing.T, change func(*ground), nodes ...string) *ground {
	t.Helper()
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{Scheduler: true, ManagerArgs: []string{"--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	r, err := rig.Connect(api)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{T: t, rig: r, dir: t.TempDir(), routers: map[string]*agentsim.Routers{}}
	change(g)
	g.keyboard()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	k := &kubelets{ground: g, gossip: agentsim.NewGossip(), started: map[string]bool{}, pods: map[types.UID]*runningPod{}, addrs: map[string]netip.Addr{}}
	addr := netip.MustParseAddr("192.0.2.11")
	for _, name := range nodes {
		g.node(name, addr)
		k.addrs[name], g.routers[name] = addr, agentsim.NewRouters()
		addr = addr.Next()
	}
	running.Go(func() { k.run(ctx, &running) })
	return g
}

// keyboard has kubectl with the plugin, Helm, and what the guides call charts and deploy.
func (g *ground) keyboard() {
	g.Helper()
	kube, err := sandbox.KubeBinary(g.Context(), os.Stderr)
	if err != nil {
		g.Fatal(err)
	}
	find := exec.CommandContext(g.Context(), "go", "tool", "-modfile=tools.mod", "-n", "helm")
	find.Dir, find.Env = tree.Path(), append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	helm, err := find.Output()
	if err != nil {
		g.Fatal(err)
	}
	bin := g.TempDir()
	if _, err := tree.Build(g.Context(), "kubectl-fairlead", bin); err != nil {
		g.Fatal(err)
	}
	for name, target := range map[string]string{
		filepath.Join(bin, "fairlead"): tree.Binary(g, "fairlead"),
		filepath.Join(bin, "kubectl"):  kube, filepath.Join(bin, "helm"): strings.TrimSpace(string(helm)),
		filepath.Join(g.dir, "charts"): tree.Path("charts"), filepath.Join(g.dir, "deploy"): tree.Path("deploy"),
	} {
		if err := os.Symlink(target, name); err != nil {
			g.Fatal(err)
		}
	}
	g.shell = append(os.Environ(), "KUBECONFIG="+g.rig.API.Kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"), "HELM_CACHE_HOME="+g.TempDir(), "HELM_CONFIG_HOME="+g.TempDir())
}

// sh runs commands as somebody at the keyboard does.
func (g *ground) sh(commands string) string {
	g.Helper()
	// Pods are ready here before their agents have said anything.
	for _, agent := range regexp.MustCompile(`kubectl wait (agent/\S+) --for=jsonpath`).FindAllStringSubmatch(commands, -1) {
		g.sh("kubectl wait " + agent[1] + " --for=create --timeout=2m")
	}
	c := exec.CommandContext(g.Context(), "bash", "-euo", "pipefail", "-c", commands)
	c.Dir, c.Env = g.dir, g.shell
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	g.Logf("$ %s\n%s%s", commands, out, said.String())
	if err != nil {
		g.Fatalf("%s: %v\n%s", commands, err, said.String())
	}
	return string(out)
}

func (g *ground) create(o client.Object) {
	g.Helper()
	rig.Eventually(g, "create "+o.GetName(), func() error { return client.IgnoreAlreadyExists(g.rig.Client.Create(g.Context(), o)) })
}

func (g *ground) node(name string, addr netip.Addr) {
	g.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}}}
	g.create(n)
	rig.Eventually(g, name+" is ready", func() error {
		if err := g.rig.Client.Get(g.Context(), client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr.String()}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		n.Status.Allocatable = n.Status.Capacity
		return g.rig.Client.Status().Update(g.Context(), n)
	})
}

// kubelets run the pods that the scheduler has bound.
type kubelets struct {
	*ground
	gossip  *agentsim.Gossip
	started map[string]bool // daemons of Fairlead, if these are not programs
	pods    map[types.UID]*runningPod
	addrs   map[string]netip.Addr
}

func (k *kubelets) run(ctx context.Context, running *sync.WaitGroup) {
	changes, err := k.rig.Client.Watch(ctx, &corev1.PodList{})
	if err != nil {
		k.Errorf("watch pods: %v", err)
		return
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-changes.ResultChan():
			if !open {
				return
			}
			if p, is := event.Object.(*corev1.Pod); is && p.Spec.NodeName != "" {
				k.follow(ctx, running, p)
			}
		}
	}
}

// follow does with a pod what the API server says.
func (k *kubelets) follow(ctx context.Context, running *sync.WaitGroup, p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		k.end(p)
		_ = k.rig.Client.Delete(ctx, p, client.GracePeriodSeconds(0))
		if p.Labels["app.kubernetes.io/name"] == "metallb" && p.Labels["app.kubernetes.io/component"] == "speaker" {
			k.routers[p.Spec.NodeName].Take("tor") // its session has ended
		}
		return
	}
	if p.Status.Phase == corev1.PodRunning {
		return
	}
	switch ours := p.Labels["app.kubernetes.io/name"] == "fairlead"; {
	case ours && k.programs:
		k.begin(ctx, running, p)
	case ours:
		k.start(ctx, running, p)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_ = k.rig.Client.Status().Update(ctx, p) // a later change brings it here again
}

// start runs a daemon of ours: the agent of a node, or the one controller.
func (k *kubelets) start(ctx context.Context, running *sync.WaitGroup, p *corev1.Pod) {
	name := "controller"
	if p.Labels["app.kubernetes.io/component"] != "controller" {
		name = p.Spec.NodeName
	}
	if k.started[name] {
		return
	}
	k.started[name] = true
	metallbNamespace := rig.MetalLBNamespace
	for _, arg := range p.Spec.Containers[0].Args {
		if value, is := strings.CutPrefix(arg, "--metallb-namespace="); is {
			metallbNamespace = value
		}
	}
	if name == "controller" {
		k.rig.Start(k.T, func(o *controller.Options) { setup.Add(o, setup.Names{MetalLBNamespace: metallbNamespace}) })
		lease := leaseOf(p.Namespace, p.Name)
		spec := lease.Spec
		rig.Eventually(k, "the controller leads", func() error {
			if err := k.rig.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
				return err
			}
			lease.Spec = spec
			return k.rig.Client.Update(ctx, lease)
		})
		return
	}
	namespace := p.Namespace // the caller goes on with p
	running.Go(func() {
		for ctx.Err() == nil { // as a kubelet does, for example until the kind Agent is served
			err := agentsim.Run(ctx, agentsim.Options{REST: k.rig.API.RESTConfig(), Node: name, Addr: k.addrs[name], Gossip: k.gossip, Namespace: namespace, MetalLBNamespace: metallbNamespace, Routers: k.routers[name]})
			if err == nil || ctx.Err() != nil {
				return
			}
			k.Logf("agent of %s ended, and starts again: %v", name, err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
}

// serve makes Services that MetalLB has given these addresses of a pool.
func (g *ground) serve(pool string, had map[string]string) {
	g.Helper()
	for name, address := range had {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"metallb.io/ip-allocated-from-pool": pool}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		g.create(s)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
		if err := g.rig.Client.Status().Update(g.Context(), s); err != nil {
			g.Fatal(err)
		}
		g.create(endpointsOf(name, "n1", "n2"))
	}
}

// kept wants the Services to have their addresses.
func (g *ground) kept(had map[string]string) {
	g.Helper()
	for name, address := range had {
		if got := g.sh("kubectl get service " + name + " --output jsonpath='{.status.loadBalancer.ingress[*].ip}'"); got != address {
			g.Errorf("%s has %s, had %s", name, got, address)
		}
	}
}

// migrate runs all commands that "migrate --from metallb" prints, until the last one, which
// compares, says all that is wanted. It returns that one.
func (g *ground) migrate(flags string, want ...string) (last string) {
	g.Helper()
	var m migrate.Migration
	if err := json.Unmarshal([]byte(g.sh("kubectl fairlead migrate --from metallb --output json"+flags)), &m); err != nil {
		g.Fatal(err)
	}
	commands := migrate.Commands(m.Steps)
	if len(commands) < 6 {
		g.Fatalf("there are %d commands: %q", len(commands), commands)
	}
	for _, c := range commands[:len(commands)-1] {
		g.sh(c)
	}
	last = commands[len(commands)-1]
	rig.Eventually(g, "the comparison is fine", func() error {
		c := exec.CommandContext(g.Context(), "bash", "-c", last)
		c.Dir, c.Env = g.dir, g.shell
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				return fmt.Errorf("%q is missing in\n%s", w, out)
			}
		}
		return nil
	})
	return last
}

// The commands that "migrate --from metallb" prints, run as they are, replace MetalLB:
// every Service keeps its address, and Fairlead serves it. Nothing else was touched.
func TestMetalLBVerbatim(t *testing.T) {
	g := newGround(t, "n1", "n2")
	// MetalLB as its chart installs it, under names of this cluster.
	g.sh("helm install lb " + tree.Path("test/api/install/testdata/metallb") + " --namespace balancers --create-namespace --set webhook=true")
	lan := &metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: "balancers", Name: "lan"}, Spec: metallb.IPAddressPoolSpec{Addresses: []string{"192.0.2.200-192.0.2.219"}}}
	l2 := &metallb.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "balancers", Name: "lan"}, Spec: metallb.L2AdvertisementSpec{IPAddressPools: []string{"lan"}}}
	g.sh("kubectl delete validatingwebhookconfiguration metallb-webhook-configuration")
	g.create(lan)
	g.create(l2)
	g.sh("helm upgrade lb " + tree.Path("test/api/install/testdata/metallb") + " --namespace balancers --set webhook=true")
	had := map[string]string{"web": "192.0.2.205", "mail": "192.0.2.217"}
	g.serve("lan", had)
	last := g.migrate("", "✓ Services: 2 of 2 have the address that they had, and Fairlead serves it\n", "✓ objects: 1 IPAddressPool as before\n", "✓ MetalLB: does not run any more\n")
	g.kept(had)
	var left appsv1.DaemonSetList
	if err := g.rig.Client.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Labels["app.kubernetes.io/name"] != "fairlead" {
		t.Errorf("DaemonSets: %+v (%v)", left.Items, err)
	}
	// What is wrong afterwards is told.
	if err := g.rig.Client.Delete(t.Context(), l2); err != nil {
		t.Fatal(err)
	}
	g.sh("kubectl delete service mail")
	g.sh("kubectl apply -f - <<< '{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: metallb-speaker, namespace: default}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: speaker, image: metallb/speaker}]}}}}'")
	got := g.sh(last + ` || [ $? = 1 ]`)
	for _, want := range []string{"SKIP Service default/mail: it does not exist any more", "✗ objects: L2Advertisement is missing: balancers/lan\n", "✗ MetalLB: still there: daemonset default/metallb-speaker\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// With BGP, the commands hand over the sessions, too: one node after the other, or with a second
// session beside MetalLB's. The comparison looks at sessions and routes.
func TestMetalLBBGPVerbatim(t *testing.T) {
	for name, flags := range map[string]string{"one node after the other": "", "side by side": " --second-address n1=192.0.2.111,n2=192.0.2.112"} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, "n1", "n2")
			g.sh("helm install lb " + tree.Path("test/api/install/testdata/metallb") + " --namespace balancers --create-namespace --set webhook=false")
			g.sh(`kubectl wait --for=condition=Established crd --all
kubectl apply --namespace balancers -f - <<'END'
{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: edge}, spec: {addresses: [198.51.100.0/24]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: edge}, spec: {ipAddressPools: [edge]}}
---
{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor}, spec: {myASN: 65010, peerASN: 65001, peerAddress: 192.0.2.1}}
END
kubectl rollout status daemonset lb-speaker --namespace balancers`)
			for _, r := range g.routers { // MetalLB has the sessions
				r.Refuse("tor", bgp.Failure{Kind: bgp.Conflict, Text: "another speaker has the session"})
			}
			had := map[string]string{"web": "198.51.100.5"}
			g.serve("edge", had)
			last := g.migrate(flags, "✓ BGP: 2 of 2 sessions are established, by Fairlead\n", "✓ routes: every node announces what it should\n", "✓ objects: 1 BGPPeer as before\n", "✓ MetalLB: does not run any more\n")
			g.kept(had)
			if got := g.sh("kubectl get bgppeers --namespace balancers --output name"); got != "bgppeer.metallb.io/tor\n" {
				t.Errorf("there are %s", got)
			}
			if got := g.sh("kubectl get pods --all-namespaces --selector app.kubernetes.io/name=metallb --output name"); got != "" {
				t.Errorf("left: %s", got)
			}
			// What is wrong afterwards is told.
			g.routers["n2"].Refuse("tor", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
			rig.Eventually(t, "the comparison sees it", func() error {
				if got, want := g.sh(last+` || [ $? = 1 ]`), "✗ peer tor: 1 of 2 nodes have a session with the router. n2: connection refused\n"; !strings.Contains(got, want) {
					return fmt.Errorf("%q is missing in\n%s", want, got)
				}
				return nil
			})
		})
	}
}
