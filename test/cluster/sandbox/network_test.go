package sandbox

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"fairlead.io/sandbox"
)

func intOrString(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

func TestAllHostsAreWell(t *testing.T) {
	if err := ready(t.Context(), cluster); err != nil {
		t.Error(err)
	}
	node, err := newClient(t, cluster).CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; !ok || len(node.Spec.Taints) > 0 {
		t.Errorf("node1 has labels %v and taints %v, want that of a control plane node and none", node.Labels, node.Spec.Taints)
	}
}

// Every pod reaches every other, on all nodes, in both families.
func TestPodsReachEachOther(t *testing.T) {
	pods := webPods(t)
	for from, client := range pods {
		for to, server := range pods {
			if len(server.Status.PodIPs) != 2 {
				t.Fatalf("pod on %s has the addresses %v, want one of each family", to, server.Status.PodIPs)
			}
			for _, ip := range server.Status.PodIPs {
				address := net.JoinHostPort(ip.IP, "8080")
				answer, err := kubectl(t.Context(), "exec", client.Name, "--", "/guest", "get", "http://"+address)
				if err != nil || !strings.Contains(answer, "on "+to) {
					t.Errorf("%s to %s at %s: got %q, %v", from, to, address, answer, err)
				}
			}
		}
	}
}

// Pods reach their own Service on their own node too: what comes back is
// translated although it does not leave the node.
func TestPodsReachTheirService(t *testing.T) {
	pods := webPods(t)
	service, err := newClient(t, cluster).CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range service.Spec.ClusterIPs {
		seen := make(map[string]bool)
		eventually(t, func(ctx context.Context) error {
			answer, err := kubectl(ctx, "exec", pods["node1"].Name, "--", "/guest", "get", "http://"+net.JoinHostPort(ip, "80"))
			if err != nil {
				return err
			}
			if seen[answeringNode(answer)] = true; len(seen) < 3 {
				return fmt.Errorf("only %v have answered", seen)
			}
			return nil
		})
	}
}

// answeringNode reads the node out of an answer of the web server: "web-x on
// node1 answers 192.0.2.1:1234".
func answeringNode(answer string) string {
	_, rest, _ := strings.Cut(answer, " on ")
	node, _, _ := strings.Cut(rest, " ")
	return node
}

// A status by hand and routes to a node stand for what a load balancer does.
func TestClientReachesService(t *testing.T) {
	webPods(t)
	services := newClient(t, cluster).CoreV1().Services("default")
	service, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ways := map[netip.Addr]netip.Addr{
		netip.MustParseAddr("192.0.2.10"):   netip.MustParseAddr("10.77.0.11"),
		netip.MustParseAddr("2001:db8::10"): netip.MustParseAddr("fd77::11"),
	}
	service.Status.LoadBalancer.Ingress = nil
	for address, node := range ways {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address.String()})
		if _, err := cluster.Exec(t.Context(), sandbox.ClientHost, "ip", "route", "replace", address.String(), "via", node.String()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := services.UpdateStatus(t.Context(), service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for address := range ways {
		seen := make(map[string]bool)
		eventually(t, func(ctx context.Context) error {
			answer, err := get(ctx, sandbox.ClientHost, "http://"+netip.AddrPortFrom(address, 80).String())
			if err != nil {
				return err
			}
			if seen[answeringNode(answer)] = true; len(seen) < 3 {
				return fmt.Errorf("through %s only %v have answered", address, seen)
			}
			return nil
		})
	}
}

// Programs in the cluster find the API server at its Service.
func TestAPIServerThroughItsService(t *testing.T) {
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	trust.ServerName = "kubernetes.default.svc"
	for _, node := range []string{"node1", "node2", "node3"} {
		conn, err := cluster.Dial(t.Context(), node, "tcp", "10.96.0.1:443")
		if err != nil {
			t.Errorf("from %s: %v", node, err)
			continue
		}
		if err := tls.Client(conn, trust).HandshakeContext(t.Context()); err != nil {
			t.Errorf("from %s: %v", node, err)
		}
		conn.Close()
	}
}

func TestLoadedImageRuns(t *testing.T) {
	archive := t.TempDir() + "/loaded.tar"
	image := sandbox.Image{
		Ref:        "fairlead/loaded:1",
		Entrypoint: []string{"/srv/guest", "web"},
		User:       "65532",
		Files:      []sandbox.ImageFile{{Path: "/srv/guest", Source: cluster.StateDir + "/bin/guest"}},
	}
	if err := image.WriteFile(archive); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	pods := newClient(t, cluster).CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "loaded"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image.Ref, ImagePullPolicy: corev1.PullNever}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "loaded", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod is %s", pod.Status.Phase)
		}
		return err
	})
}
