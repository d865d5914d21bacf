package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

// inCloud is a cluster whose nodes are servers of a simulated cloud.
type inCloud struct {
	*sandbox.Cluster
	t *testing.T
}

// ask sends a request to the cloud, and returns the object in the answer. While
// a load balancer is being made it refuses to be changed.
func (c inCloud) ask(method, path string, body any) map[string]any {
	c.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	var object map[string]any
	eventually(c.t, func(ctx context.Context) error {
		answer, err := c.CloudRequest(ctx, method, path, string(raw))
		if err != nil && !strings.Contains(err.Error(), "being changed") {
			c.t.Fatal(err)
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(answer, &object)
	})
	return object
}

func (c inCloud) list(path string) []map[string]any {
	c.t.Helper()
	answer, err := c.CloudRequest(c.t.Context(), http.MethodGet, path, "")
	if err != nil {
		c.t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(answer, &objects); err != nil {
		c.t.Fatal(err)
	}
	return objects
}

// serve answers with the client's address on a port of a node.
func (c inCloud) serve(node, address string) {
	c.t.Helper()
	var l net.Listener
	if err := c.In(node, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, node, " hears ", r.RemoteAddr) })}
	c.t.Cleanup(func() { server.Close() })
	go server.Serve(l)
}

// A cluster in a cloud: its nodes wait for a cloud controller manager, and load
// balancers of the cloud lead from the LAN to them.
func TestClusterInACloud(t *testing.T) {
	type object = map[string]any
	var told bytes.Buffer
	c := inCloud{&sandbox.Cluster{Name: "fairlead-lab-3", Nodes: 2, Cloud: sandbox.Cloudscale, Command: tree.Binary(t, "sandbox"), Progress: &told}, t}
	t.Cleanup(func() {
		if err := c.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := c.Down(t.Context()); err != nil { // of a test that was killed
		t.Fatal(err)
	}
	if err := c.Up(t.Context()); err != nil {
		t.Fatal(err)
	}

	nodes, err := newClient(t, c.Cluster).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes.Items {
		if len(n.Spec.Taints) == 0 || n.Spec.Taints[0].Key != "node.cloudprovider.kubernetes.io/uninitialized" {
			t.Errorf("taints of %s: %v", n.Name, n.Spec.Taints)
		}
		if got, want := n.Annotations["alpha.kubernetes.io/provided-node-ip"], fmt.Sprintf("10.77.0.%d,fd77::%d", 11+i, 11+i); got != want {
			t.Errorf("node %s says that it has %q, want %q", n.Name, got, want)
		}
	}
	var addresses [][]string
	for _, server := range c.list("/v1/servers") {
		all := []string{server["name"].(string)}
		for _, nic := range server["interfaces"].([]any) {
			for _, a := range nic.(object)["addresses"].([]any) {
				all = append(all, a.(object)["address"].(string))
			}
		}
		addresses = append(addresses, all)
	}
	if diff := cmp.Diff([][]string{
		{"node1", "203.0.113.11", "2001:db8:1::11", "10.77.0.11", "fd77::11"}, {"node2", "203.0.113.12", "2001:db8:1::12", "10.77.0.12", "fd77::12"},
	}, addresses); diff != "" {
		t.Error(diff)
	}

	const port = "18080"
	for _, at := range []string{"203.0.113.11", "2001:db8:1::11"} { // from the Internet, so to say
		c.serve("node1", net.JoinHostPort(at, port))
		if _, err := getFrom(t.Context(), c.Cluster, sandbox.ClientHost, "http://"+net.JoinHostPort(at, port)); err != nil {
			t.Error(err)
		}
	}
	c.serve("node1", "10.77.0.11:"+port)
	c.serve("node2", "[fd77::12]:"+port)
	subnets := c.list("/v1/subnets")
	for _, kind := range []struct {
		vips []object
		want int
	}{{[]object{}, 2}, {[]object{{"subnet": subnets[0]["uuid"]}}, 1}} {
		lb := c.ask("POST", "/v1/load-balancers", object{"name": "web", "flavor": "lb-standard", "vip_addresses": kind.vips})
		pool := c.ask("POST", "/v1/load-balancers/pools", object{"name": "tcp", "load_balancer": lb["uuid"], "algorithm": "round_robin", "protocol": "tcp"})
		for i, address := range []string{"10.77.0.11", "fd77::12"} {
			c.ask("POST", fmt.Sprintf("/v1/load-balancers/pools/%s/members", pool["uuid"]),
				object{"name": address, "protocol_port": port, "address": address, "subnet": subnets[i]["uuid"]})
		}
		c.ask("POST", "/v1/load-balancers/listeners", object{"name": "tcp/80", "pool": pool["uuid"], "protocol": "tcp", "protocol_port": 80})
		vips := lb["vip_addresses"].([]any)
		if len(vips) != kind.want {
			t.Errorf("addresses of the load balancer: %v", vips)
		}
		for _, vip := range vips {
			url := "http://" + net.JoinHostPort(vip.(object)["address"].(string), "80")
			answers := make(map[string]bool)
			eventually(t, func(ctx context.Context) error {
				answer, err := getFrom(ctx, c.Cluster, sandbox.ClientHost, url)
				node, client, _ := strings.Cut(answer, " hears ")
				if err == nil && !strings.HasPrefix(client, "10.77.0.2:") && !strings.HasPrefix(client, "[fd77::2]:") {
					t.Errorf("a connection from %s; want one from the cloud", client)
				}
				if answers[node] = err == nil; !answers["node1"] || !answers["node2"] {
					return fmt.Errorf("from %s: %v, %w", url, answers, err)
				}
				return nil
			})
			if _, err := getFrom(t.Context(), c.Cluster, "node2", url); err != nil {
				t.Errorf("from a node: %v", err)
			}
		}
	}
	for _, change := range []struct {
		make func(context.Context, string) error
		want string
	}{{c.Kill, "stopped"}, {c.Restart, "running"}} {
		if err := change.make(t.Context(), "node2"); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			if got := c.list("/v1/servers")[1]["status"]; got != change.want {
				return fmt.Errorf("the server of node2 is %v, not %s", got, change.want)
			}
			return nil
		})
	}
	if err := c.Down(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(told.String(), "2 load balancers are left behind") {
		t.Errorf("the end says nothing of load balancers that are left behind: %s", told.String())
	}
	if left := traces(t, c.Name); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}
