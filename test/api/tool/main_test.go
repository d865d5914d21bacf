// Package tool runs the commands for people against a real API server, with a real
// controller, and agents without nodes.
package tool

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/link"
	"fairlead.io/internal/tool"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard())
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true, Audit: true}, &theRig))
}

// world is a cluster with Fairlead in it.
type world struct {
	t       *testing.T
	kernels map[string]*link.Fake
	routers map[string]*agentsim.Routers
	addrs   map[string]netip.Addr
	// variables of the agents.
	variables []corev1.EnvVar
}

const namespace = "fairlead-system"

func create(t *testing.T, o client.Object) {
	t.Helper()
	rig.Eventually(t, "create "+o.GetName(), func() error {
		err := theRig.Client.Create(t.Context(), o)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// newWorld is empty.
func newWorld(t *testing.T) *world {
	t.Helper()
	theRig.Clean(t)
	for _, name := range []string{namespace, "shop"} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	w := &world{t: t, kernels: map[string]*link.Fake{}, routers: map[string]*agentsim.Routers{}, addrs: map[string]netip.Addr{}}
	t.Cleanup(func() {
		ctx := context.Background()
		for _, o := range []client.Object{&corev1.Pod{}, &coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}} {
			for _, in := range []string{namespace, "shop"} {
				if err := theRig.Client.DeleteAllOf(ctx, o, client.InNamespace(in), client.GracePeriodSeconds(0)); err != nil {
					t.Error(err)
				}
			}
		}
		for _, o := range []client.Object{&corev1.Node{}, &v1alpha1.Agent{}} {
			if err := theRig.Client.DeleteAllOf(ctx, o); err != nil {
				t.Error(err)
			}
		}
		theRig.Clean(t)
	})
	return w
}

// install runs a controller, and agents on these nodes. There are no kubelets, so it
// makes the pods that these would have.
func (w *world) install(nodes ...string) {
	w.t.Helper()
	theRig.Start(w.t)
	w.pod("fairlead-controller-x7k", "controller", "")
	create(w.t, leaseOf(namespace, "fairlead-controller-x7k"))
	gossip := agentsim.NewGossip()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	addr := netip.MustParseAddr("192.0.2.201")
	var environ []string
	for _, v := range w.variables {
		environ = append(environ, v.Name+"="+v.Value)
	}
	theirs, err := config.KubeVIPBGPFrom(environ)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range nodes {
		w.node(name, addr)
		w.pod("fairlead-agent-"+name, "agent", name)
		kernel := link.NewFake(agentsim.Eth0(addr))
		w.kernels[name], w.addrs[name], w.routers[name] = kernel, addr, agentsim.NewRouters()
		at, routers := addr, w.routers[name]
		running.Go(func() {
			err := agentsim.Run(ctx, agentsim.Options{KubeVIPBGP: theirs, REST: theRig.API.RESTConfig(), Node: name, Addr: at, Gossip: gossip, Namespace: "kube-system", MetalLBNamespace: rig.MetalLBNamespace, Kernel: kernel, Routers: routers})
			if err != nil {
				w.t.Errorf("agent of %s: %v", name, err)
			}
		})
		addr = addr.Next()
	}
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// leaseOf is the Lease of a controller that leads.
func leaseOf(namespace, pod string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fairlead-controller"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(pod + "_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
}

func (w *world) node(name string, addr netip.Addr) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(w.t, n)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr.String()}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := theRig.Client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

// pod makes a pod that is ready.
func (w *world) pod(name, component, node string) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": component}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: component, Image: "fairlead", Args: []string{component}, Env: w.variables}}},
	}
	create(w.t, p)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := theRig.Client.Status().Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// pool makes a pool.
func (w *world) pool(name string, addresses ...string) {
	w.t.Helper()
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		p.Spec.Addresses = append(p.Spec.Addresses, v1alpha1.Span(a))
	}
	create(w.t, p)
}

// service makes a Service in namespace shop, with pods on these nodes.
func (w *world) service(name string, change func(*corev1.Service), nodes ...string) {
	w.t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}, AllocateLoadBalancerNodePorts: ptr.To(false),
			Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if change != nil {
		change(s)
	}
	create(w.t, s)
	if len(nodes) > 0 {
		w.endpoints(name, nodes...)
	}
}

func (w *world) endpoints(service string, nodes ...string) {
	w.t.Helper()
	slice := endpointsOf(service, nodes...)
	slice.Namespace = "shop"
	create(w.t, slice)
}

// endpointsOf are pods that serve on these nodes, in namespace default.
func endpointsOf(service string, nodes ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.7", i)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	return slice
}

// announcer returns the node that announces the address of a Service, or "".
func (w *world) announcer(service string) (string, error) {
	var s corev1.Service
	if err := theRig.Client.Get(w.t.Context(), client.ObjectKey{Namespace: "shop", Name: service}, &s); err != nil {
		return "", err
	}
	has := kubeapi.Service(&s).Published()
	if len(has) == 0 {
		return "", fmt.Errorf("%s has no address", service)
	}
	var agents v1alpha1.AgentList
	if err := theRig.Client.List(w.t.Context(), &agents); err != nil {
		return "", err
	}
	by := ""
	for _, a := range agents.Items {
		for _, x := range a.Status.Addresses {
			if x.Address == has[0].String() {
				if by != "" {
					return "", fmt.Errorf("%s is announced by %s and %s", x.Address, by, a.Name)
				}
				by = a.Name
			}
		}
	}
	return by, nil
}

// announced waits until a node announces each of the Services.
func (w *world) announced(services ...string) {
	w.t.Helper()
	for _, name := range services {
		rig.Eventually(w.t, name+" is announced", func() error {
			by, err := w.announcer(name)
			if err == nil && by == "" {
				err = fmt.Errorf("nobody announces %s", name)
			}
			return err
		})
	}
}

// run runs a command and returns what it prints and its exit code.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return runWith(t, theRig.API.Kubeconfig, args...)
}

func runWith(t *testing.T, kubeconfig string, args ...string) (string, int) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-fairlead", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(tool.Commands("test")...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append(args, "--kubeconfig", kubeconfig))
	err := root.ExecuteContext(t.Context())
	if text := tool.Message(err); text != "" {
		fmt.Fprintln(&out, text)
	}
	return out.String(), tool.ExitCode(err)
}

// durations are replaced in outputs: they differ each time.
var durations = regexp.MustCompile(`\bfor \d+[smhd]+(\d+s)?`)

// clock is the time of facts.
var clock = regexp.MustCompile(`facts of \S+ UTC`)

// complete returns what a shell would offer, one name.
func complete(t *testing.T, args ...string) string {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-fairlead"}
	root.AddCommand(tool.Commands("test")...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	name, _, _ := strings.Cut(out.String(), "\n")
	return name
}

// expect runs a command until it prints this and exits with the code: agents and the
// controller take their time.
func expect(t *testing.T, command string, code int, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	rig.Eventually(t, "kubectl fairlead "+command, func() error {
		got, is := run(t, strings.Fields(command)...)
		got = clock.ReplaceAllString(durations.ReplaceAllString(got, "for TIME"), "facts of TIME")
		if diff := cmp.Diff(want, got); diff != "" || is != code {
			return fmt.Errorf("exit %d, want %d; want -, got +:\n%s", is, code, diff)
		}
		return nil
	})
}
