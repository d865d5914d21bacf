// Package install tests on real nodes what people install: the chart in real pods,
// an example that answers, and nodes that are clean after helm uninstall.
package install

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/site"
)

const namespace = "fairlead-system"

// cluster is up while the tests of this package run.
var cluster = site.Shared

var nodes = []string{"node1", "node2", "node3"}

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), cluster, m.Run, func(context.Context) (done func(), err error) { return func() {}, nil }))
}

// What "make up" does: a cluster with Fairlead from its chart in real pods, and
// an example that answers. Install itself waits until the address answers the
// client host, which nothing but the announcement of a node leads there. Then
// the release is uninstalled, and nothing of it is left on the nodes.
func TestClusterWithFairlead(t *testing.T) {
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := site.Client(cluster)
	if err != nil {
		t.Fatal(err)
	}
	before := everything(t, c)
	var told strings.Builder
	was := cluster.Progress
	cluster.Progress = io.MultiWriter(os.Stderr, &told)
	t.Cleanup(func() { cluster.Progress = was })
	for _, again := range []bool{false, true} { // it can be repeated
		if err := cluster.Install(t.Context()); err != nil {
			t.Fatalf("install (again: %t): %v", again, err)
		}
	}
	if !strings.Contains(told.String(), "\n  kubectl fairlead ui\n") {
		t.Errorf("the live page is not offered at the end:\n%s", told.String())
	}
	if _, err := site.Shell(t.Context(), cluster, "kubectl fairlead ui --help"); err != nil {
		t.Errorf("it is offered, but not there: %v", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	everyNodeHasItsPods(t, c, kube)
	address := announcedByOne(t, c)
	for _, node := range nodes {
		if there := onNode(t, node, address); !slices.Contains(there, "the tables fairlead") {
			t.Errorf("%s has no tables of ours, only %v: the test looks for the wrong thing", node, there)
		}
	}

	runCommandsOfPages(t, address, func() string { return announcer(t, c, address) })
	announcer(t, c, address)
	drainAsPlanned(t, c)
	if _, err := site.Shell(t.Context(), cluster, "helm uninstall fairlead --wait --namespace "+namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all pods are gone", func() error {
		var pods corev1.PodList
		err := c.List(t.Context(), &pods, client.InNamespace(namespace))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
	for _, node := range nodes {
		if left := onNode(t, node, address); len(left) > 0 {
			t.Errorf("after helm uninstall %s still has %v", node, left)
		}
	}
	for _, left := range everything(t, c) {
		if strings.Contains(left, namespace) && !slices.Contains(before, left) {
			t.Errorf("after helm uninstall there is still %s", left)
		}
	}
}

// everyNodeHasItsPods: two replicas of the controller on two nodes and an agent on
// each of three, none of which has ended or lacked a right.
func everyNodeHasItsPods(t *testing.T, c client.Client, kube kubernetes.Interface) {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	on := map[string]map[string]bool{"controller": {}, "agent": {}}
	for _, p := range pods.Items {
		on[p.Labels["app.kubernetes.io/component"]][p.Spec.NodeName] = true
		if now := p.Status.ContainerStatuses[0]; now.RestartCount > 0 {
			before, err := kube.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
			t.Errorf("pod %s was restarted after %v, and had logged (%v):\n%s", p.Name, now.LastTerminationState, err, before)
		}
		log, err := kube.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil || strings.Contains(string(log), "forbidden") {
			t.Errorf("the log of pod %s says that it may not do something (%v):\n%s", p.Name, err, log)
		}
	}
	if len(pods.Items) != 5 || len(on["controller"]) != 2 || len(on["agent"]) != 3 {
		t.Errorf("want a controller on each of two nodes and an agent on each of three, got %d pods: %v", len(pods.Items), on)
	}
}

// announcedByOne returns the address of the example, which one agent says to
// announce, in its status and in an event.
func announcedByOne(t *testing.T, c client.Client) (address string) {
	t.Helper()
	var web corev1.Service
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &web); err != nil {
		t.Fatal(err)
	}
	address = web.Status.LoadBalancer.Ingress[0].IP
	node := announcer(t, c, address)
	eventually(t, "an event says so", func() error {
		var events corev1.EventList
		err := c.List(t.Context(), &events, client.InNamespace("default"))
		if err == nil && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "Announced" && e.InvolvedObject.UID == web.UID && strings.Contains(e.Message, node)
		}) {
			err = fmt.Errorf("there are %d other events", len(events.Items))
		}
		return err
	})
	return address
}

// announcer waits until one node announces an address of the Service web, and all are ready.
func announcer(t *testing.T, c client.Client, address string) (node string) {
	t.Helper()
	eventually(t, "one agent says that it announces the address, and all are ready", func() error {
		var agents v1alpha1.AgentList
		if err := c.List(t.Context(), &agents); err != nil {
			return err
		}
		var with []string
		ready := 0
		for _, a := range agents.Items {
			if meta.IsStatusConditionTrue(a.Status.Conditions, "Ready") {
				ready++
			}
			for _, n := range a.Status.Addresses {
				if n.Address == address && slices.Equal(n.Services, []string{"default/web"}) && n.Interface == "eth0" && n.Protocol == "ARP" {
					with = append(with, a.Name)
				}
			}
		}
		if len(with) != 1 || ready != len(nodes) {
			return fmt.Errorf("%d of %d are ready, %v announce it", ready, len(agents.Items), with)
		}
		node = with[0]
		return nil
	})
	return node
}

// onNode lists what Fairlead has on a node.
func onNode(t *testing.T, node, address string) []string {
	t.Helper()
	tables, err := cluster.Exec(t.Context(), node, "nft", "list", "tables")
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := cluster.Exec(t.Context(), node, "ip", "address", "show")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	if strings.Contains(string(tables), "fairlead") {
		there = append(there, "the tables fairlead")
	}
	if strings.Contains(string(addresses), "inet "+address+"/") {
		there = append(there, "the address "+address)
	}
	return there
}

var eventually = site.Eventually

func everything(t *testing.T, c client.Client) []string {
	t.Helper()
	found, err := rig.Everything(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
