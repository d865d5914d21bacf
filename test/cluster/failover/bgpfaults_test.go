package failover

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// signalProxy sends a signal to kube-proxy of a node.
func signalProxy(t *testing.T, node, signal string) {
	t.Helper()
	if err := signalProxyNow(node, signal); err != nil {
		t.Fatal(err)
	}
}

// signalProxyNow is signalProxy after the end of a test, too.
func signalProxyNow(node, signal string) error {
	_, err := cluster.Exec(context.Background(), node, "sh", "-c", `for p in /proc/[0-9]*; do if tr '\0' ' ' <$p/cmdline | grep -q "^[^ ]*/kube kube-proxy "; then kill -`+signal+` ${p#/proc/}; fi; done`)
	return err
}

// stopProxy has kube-proxy of a node stand still until the test ends or the returned function is
// called.
func stopProxy(t *testing.T, node string) (resume func()) {
	t.Helper()
	signalProxy(t, node, "STOP")
	resume = func() { _ = signalProxyNow(node, "CONT") }
	t.Cleanup(resume)
	return resume
}

// knows waits until FRR has a path of a node to a prefix, whether it uses it or not, or has none.
func (r *routers) knows(prefix string, node string, want bool) {
	r.t.Helper()
	hop := addressOfNode(r.t, node, false)
	eventually(r.t, func() error {
		out := r.frr.Show("show bgp ipv4 unicast " + prefix)
		if strings.Contains(out, "from "+hop+" ") != want {
			return fmt.Errorf("a path to %s: want %t\n%s", node, want, out)
		}
		return nil
	})
}

// A node whose kube-proxy stands still is left by routers. If all do, nobody withdraws.
func TestBGPKubeProxyStops(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	first := stopProxy(t, "node1")
	r.leadsTo(p, "node2", "node3")
	r.knows(p.String(), "node1", false)
	if err := r.established("node1"); err != nil {
		t.Error(err)
	}
	second, third := stopProxy(t, "node2"), stopProxy(t, "node3")
	r.leadsTo(p, nodes...) // as the last choice, all of them
	stop := r.connect(addrs[0])
	during(t, 8*time.Second, func() error { // longer than a node waits for others
		if got := nextHops(r.ns, p); len(got) != len(nodes) {
			return fmt.Errorf("%s leads to %q", p, got)
		}
		return nil
	})
	if made, failed := stop(); len(failed) > 0 || made == 0 {
		t.Errorf("%d connections were made, and these failed: %q", made, failed)
	}
	first()
	r.leadsTo(p, "node1")
	second()
	third()
	r.leadsTo(p, nodes...)
}

// While the API server is away, nothing changes; what happened meanwhile is made up for.
func TestBGPWithoutAPIServer(t *testing.T) {
	r, s, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	r.forwarded(addrs[0])
	// Kube-proxy keeps its connection: it would ask again only after up to a minute, and agents
	// announce what it forwards.
	rules := "add table inet away; add chain inet away input { type filter hook input priority -300; }; "
	for _, node := range nodes {
		for _, port := range kubePorts(t, node) {
			rules += fmt.Sprintf("add rule inet away input ip saddr %s tcp sport %s accept; ", addressOfNode(t, node, false), port)
		}
	}
	onHost(t, sandbox.ControlHost, "nft", rules+"add rule inet away input ip saddr { 10.77.0.11, 10.77.0.12, 10.77.0.13 } tcp dport 6443 reject with tcp reset")
	back := func() {
		_, _ = cluster.Exec(context.Background(), sandbox.ControlHost, "nft", "delete table inet away")
	}
	t.Cleanup(back)
	// What the API server still tells on open connections is the end of them.
	for round := 0; ; round++ {
		body := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/round":"%d"}}}`, round)
		if err := api.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
		open := ""
		for _, node := range nodes {
			open += onHost(t, node, "ss", "-Htnp", "state", "established", "dst 10.77.0.1 and dport = :6443")
		}
		if !strings.Contains(open, "fairlead") {
			break
		}
		if round > 100 {
			t.Fatalf("agents are still connected to the API server:\n%s", open)
		}
	}
	unchanged, stop := r.steady(p), r.connect(addrs[0])
	other := newService(t, "another", ofMetalLB)
	added := addressesOf(t, other)[0]
	during(t, 10*time.Second, func() error {
		if got := nextHops(r.ns, hostPrefix(added)); len(got) > 0 {
			return errors.New("agents hear of a Service without the API server")
		}
		return nil
	})
	unchanged()
	if made, failed := stop(); len(failed) > 0 || made == 0 {
		t.Errorf("%d connections were made, and these failed: %q", made, failed)
	}
	heard := r.hears(added)
	back()
	began := time.Now()
	r.leadsTo(hostPrefix(added), nodes...)
	within(t, "the first route came, after the API server was back,", heard().Sub(began), 3*time.Second)
	if err := api.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	r.leadsTo(p)
}

// kubePorts are those from which Kubernetes' own programs on a node are connected with the API
// server.
func kubePorts(t *testing.T, node string) (ports []string) {
	t.Helper()
	for line := range strings.Lines(onHost(t, node, "ss", "-Htnp", "state", "established", "dst 10.77.0.1 and dport = :6443")) {
		if fields := strings.Fields(line); strings.Contains(line, `(("kube"`) && len(fields) > 2 {
			ports = append(ports, fields[2][strings.LastIndex(fields[2], ":")+1:])
		}
	}
	if len(ports) == 0 {
		t.Fatalf("kube-proxy of %s is not connected", node)
	}
	return ports
}

// hears waits beside for the first change of the route to an address in FRR's kernel. What it
// returns says when that was.
func (r *routers) hears(addr netip.Addr) (at func() time.Time) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "ip", "-o", "monitor", "route")
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.ns.Do(func() { err = cmd.Start() })
	if err != nil {
		r.t.Fatal(err)
	}
	first := make(chan time.Time, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), addr.String()+" ") {
				first <- time.Now()
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		close(first)
	}()
	return func() time.Time {
		r.t.Helper()
		select {
		case at := <-first:
			return at
		case <-time.After(site.Long):
			r.t.Fatalf("the route to %s did not change", addr)
			return time.Time{}
		}
	}
}

// patchNode changes a Node object, or its status.
func patchNode(t *testing.T, node, body string, subresource ...string) {
	t.Helper()
	n := &corev1.Node{}
	n.Name = node
	var err error
	if patch := client.RawPatch(types.StrategicMergePatchType, []byte(body)); len(subresource) > 0 {
		err = api.Status().Patch(t.Context(), n, patch)
	} else {
		err = api.Patch(t.Context(), n, patch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Routers leave a node that is out of service before its sessions end, and no connection fails.
// A node without a network is withdrawn, and keeps its session.
func TestBGPDepartingNodes(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	r.forwarded(addrs[0])
	t.Cleanup(func() {
		n := &corev1.Node{}
		n.Name = "node1"
		for _, body := range []string{`{"spec":{"taints":null}}`, `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}}}`} {
			_ = api.Patch(context.Background(), n, client.RawPatch(types.StrategicMergePatchType, []byte(body)))
		}
		_ = api.Status().Patch(context.Background(), n, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"NetworkUnavailable","$patch":"delete"}]}}`)))
	})
	stop := r.connect(addrs[0])
	patchNode(t, "node1", `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)
	r.leadsTo(p, "node2", "node3")
	r.knows(p.String(), "node1", false)
	eventually(t, func() error {
		if r.established("node1") == nil {
			return errors.New("the session goes on")
		}
		return nil
	})
	if made, failed := stop(); len(failed) > 0 || made == 0 {
		t.Errorf("%d connections were made, and these failed: %q", made, failed)
	}
	patchNode(t, "node1", `{"spec":{"taints":null}}`)
	r.leadsTo(p, nodes...)

	patchNode(t, "node1", `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True"}]}}`, "status")
	r.knows(p.String(), "node1", false)
	if err := r.established("node1"); err != nil {
		t.Error(err)
	}
	patchNode(t, "node1", `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False"}]}}`, "status")
	r.leadsTo(p, nodes...)

	// MetalLB's flag has a label ignored.
	patchNode(t, "node1", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	r.leadsTo(p, "node2", "node3")
	running["node1"].kill(t)
	running["node1"] = launch(t, "node1", "--ignore-exclude-lb")
	agentsRun(t, nodes...)
	r.leadsTo(p, nodes...)
	running["node1"].kill(t) // other tests want an agent without it
}
