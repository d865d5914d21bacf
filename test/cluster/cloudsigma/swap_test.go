package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/tree"
)

// oldPod stands for the pod that CloudSigma's own controller makes: its names, labels
// and script. The programs are those of the machine, Debian's. ADDRESS, DASHED, NODE
// and POD stand for what it fills in.
const oldPod = `
apiVersion: v1
kind: Pod
metadata:
  name: lb-ip-DASHED
  namespace: kube-system
  labels: {app: cloudsigma-lb-ip, cloudsigma.com/ip: ADDRESS, cloudsigma.com/svc: POD}
spec:
  nodeName: NODE
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers:
  - name: lb-config
    image: ` + sandbox.WebImage + `
    securityContext: {privileged: true, runAsUser: 0}
    env: [{name: PATH, value: "/usr/sbin:/usr/bin"}]
    command: [/bin/sh, -c]
    args:
    - |
      PRIMARY_IF=$(ip -o link | sed 's/^[0-9]*: \([^:@]*\).*/\1/' | grep -Ev '^(lo|cilium|lxc|veth)' | head -1)
      ip addr add ADDRESS/32 dev $PRIMARY_IF || true
      for chain in PREROUTING OUTPUT; do
        iptables -t nat -C $chain -d ADDRESS -p tcp --dport 80 -j DNAT --to-destination POD:80 ||
          iptables -t nat -I $chain 1 -d ADDRESS -p tcp --dport 80 -j DNAT --to-destination POD:80
      done
      iptables -t nat -C POSTROUTING -d POD -p tcp --dport 80 -j MASQUERADE ||
        iptables -t nat -A POSTROUTING -d POD -p tcp --dport 80 -j MASQUERADE
      while true; do sleep 3600; done
    volumeMounts:
    - {name: usr, mountPath: /usr}
    - {name: bin, mountPath: /bin}
    - {name: lib, mountPath: /lib}
    - {name: lib64, mountPath: /lib64}
    - {name: etc, mountPath: /etc/alternatives}
  volumes:
  - {name: usr, hostPath: {path: /usr}}
  - {name: bin, hostPath: {path: /usr/bin}}
  - {name: lib, hostPath: {path: /usr/lib}}
  - {name: lib64, hostPath: {path: /usr/lib64}}
  - {name: etc, hostPath: {path: /etc/alternatives}}
`

// What the original has made of a Service stays as it is while Fairlead takes over,
// and the guide's commands leave nothing of it on the node; and back. The original has two
// versions: one attaches a NIC for each address, one sets the nodes' own to manual.
func TestSwap(t *testing.T) {
	for _, mode := range []string{"dhcp", "manual"} {
		t.Run(mode, func(t *testing.T) { swap(t, mode) })
	}
}

func swap(t *testing.T, mode string) {
	const address, node = "192.0.2.10", "node2"
	c := boot(t, "nftables", "--nics="+mode)
	for _, n := range allNodes { // as the original wants and leaves them
		c.kubectl("patch", "node", n, `--patch={"spec":{"providerID":"cloudsigma://`+c.server(n)["uuid"].(string)+`"}}`)
		c.kubectl("taint", "node", n, "node.cloudprovider.kubernetes.io/uninitialized-")
	}
	c.apply(nginx)
	c.kubectl("rollout", "status", "deployment/nginx", "--timeout=2m")
	c.apply(strings.Split(examples, "---")[0])
	if mode != "manual" {
		c.attach(address, node)
	}
	for _, tag := range []string{"cluster:" + clusterName, "service:default-nginx-lb", "managed-by:cloudsigma-ccm"} {
		c.cloud(http.MethodPost, "/api/2.0/tags/", map[string]any{"objects": []any{map[string]any{"name": tag, "resources": []string{address}}}}, nil)
	}
	c.old(address, node)
	c.kubectl("patch", "service", "nginx-lb", "--subresource=status", "--type=merge", `--patch={"status":{"loadBalancer":{"ingress":[{"ip":"`+address+`"}]}}}`)
	c.answers("tcp", address, 80)

	before := map[string]any{"server": c.server(node)["nics"], "tags": c.tagged(address)}
	asking := client.Browse(c.Cluster, netip.MustParseAddrPort(address+":80"))
	if _, err := c.CloudRequest(t.Context(), http.MethodDelete, "/sandbox/log", ""); err != nil {
		t.Fatal(err)
	}
	c.install()
	c.kubectl("wait", "service/nginx-lb", "--for=condition=fairlead.io/Ready", "--timeout=2m")
	if got := c.address("nginx-lb"); got != address {
		t.Errorf("the Service has %s now", got)
	}

	// The guide's commands.
	pod := "lb-ip-" + strings.ReplaceAll(address, ".", "-")
	c.kubectlWith(guideScript(t), "exec", "--stdin", "--namespace=kube-system", pod, "--", "sh", "-s", address)
	c.kubectl("delete", "pod", pod, "--namespace=kube-system")
	c.eventually("one agent carries the address", time.Minute, func(ctx context.Context) error {
		if carry := c.carriers(ctx, address, allNodes...); len(carry) != 1 || mode != "manual" && carry[0] != node {
			return fmt.Errorf("carried by %q", carry)
		}
		return nil
	})
	c.answers("tcp", address, 80)
	var writes []struct{ Method, Path string }
	c.cloud(http.MethodGet, "/sandbox/log", nil, &writes)
	for _, call := range writes {
		if call.Method != http.MethodGet {
			t.Errorf("to take over, the cloud was told %s %s", call.Method, call.Path)
		}
	}
	if diff := cmp.Diff(before, map[string]any{"server": c.server(node)["nics"], "tags": c.tagged(address)}); diff != "" {
		t.Errorf("the cloud has changed:\n%s", diff)
	}
	if left := c.rules(node); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, ""))
	}
	for _, r := range asking.Stop() {
		if t.Logf("%d connections made, longest gap %v", len(r.Made), r.Gap); r.Gap > 10*time.Second {
			t.Errorf("no connection for %v: %q", r.Gap, r.Failed)
		}
	}
	c.back(address, node)
}

// back follows the guide back to the original, which finds what it needs.
func (c *cluster) back(address, node string) {
	c.t.Helper()
	before := map[string]any{"server": c.server(node)["nics"], "tags": c.tagged(address)}
	c.kubectl("delete", "daemonset/fairlead-controller", "--namespace=kube-system", "--cascade=foreground")
	c.kubectl("delete", "--ignore-not-found", "--filename="+tree.Path("deploy", "cloudsigma.yaml"))
	c.eventually("nothing of Fairlead's is left on the nodes", time.Minute, func(ctx context.Context) error {
		if carry := c.carriers(ctx, address, allNodes...); len(carry) > 0 {
			return fmt.Errorf("carried by %q", carry)
		}
		for _, n := range allNodes {
			tables, err := c.Exec(ctx, n, "nft", "list", "tables")
			if err != nil || strings.Contains(string(tables), "fairlead") {
				return fmt.Errorf("tables of %s: %s (%w)", n, tables, err)
			}
		}
		return nil
	})
	if got := c.kubectl("get", "service", "nginx-lb", "--output=jsonpath={.status.loadBalancer.ingress[*].ip}"); got != address {
		c.t.Errorf("the Service has %q now", got)
	}
	c.old(address, node)
	c.answers("tcp", address, 80)
	if diff := cmp.Diff(before, map[string]any{"server": c.server(node)["nics"], "tags": c.tagged(address)}); diff != "" {
		c.t.Errorf("the cloud has changed:\n%s", diff)
	}
	// The original knows no finalizer.
	script := guideCommands(c.t, "The old controller does not remove the finalizer")
	c.shell(script)
	if left := c.kubectl("get", "service", "nginx-lb", "--output=jsonpath={.metadata.finalizers}"); left != "" {
		c.t.Errorf("finalizers %s", left)
	}
	c.kubectl("delete", "service", "nginx-lb", "--timeout=30s")
}

// shell runs a script as an operator does, with the cluster's kubectl.
func (c *cluster) shell(script string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+filepath.Join(c.StateDir, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// old makes for the Service the pod that the original makes.
func (c *cluster) old(address, node string) {
	c.t.Helper()
	pod := c.kubectl("get", "pods", "--selector=app=nginx", "--output=jsonpath={.items[0].status.podIP}")
	c.apply(strings.NewReplacer("ADDRESS", address, "DASHED", strings.ReplaceAll(address, ".", "-"), "NODE", node, "POD", pod).Replace(oldPod))
	c.eventually("the old pod has added its alias and its three rules", time.Minute, func(context.Context) error {
		if len(c.carriers(c.t.Context(), address, node)) == 0 || len(c.rules(node)) != 3 {
			return errors.New(c.kubectl("get", "pods", "--namespace=kube-system"))
		}
		return nil
	})
}

// rules are the original's on a node.
func (c *cluster) rules(node string) (rules []string) {
	c.t.Helper()
	all, err := c.Exec(c.t.Context(), node, "iptables-save", "-t", "nat")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, "--dport 80 ") {
			rules = append(rules, line)
		}
	}
	return rules
}

// guideScript is the one that the guide gives for old pods.
func guideScript(t *testing.T) string {
	t.Helper()
	_, text, _ := strings.Cut(guide(t), "<<'END'\n")
	script, _, found := strings.Cut(text, "\nEND\n")
	if !found {
		t.Fatal("the guide has no script")
	}
	return script + "\n"
}

// guideCommands are those of the guide's first block after a sentence.
func guideCommands(t *testing.T, sentence string) string {
	t.Helper()
	_, text, _ := strings.Cut(guide(t), sentence)
	_, text, _ = strings.Cut(text, "\n```sh\n")
	commands, _, found := strings.Cut(text, "\n```\n")
	if !found {
		t.Fatalf("the guide has no commands after %q", sentence)
	}
	return commands
}

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(tree.Path("docs", "guides", "migrate-from-cloudsigma-ccm.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
