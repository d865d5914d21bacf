package install

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/snapshot"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/tree"
)

// plugin runs "kubectl fairlead" as people do, and returns what it prints, whatever its
// exit code.
func plugin(t *testing.T, dir, args string) string {
	t.Helper()
	out, err := site.Shell(t.Context(), cluster, "PATH="+dir+":$PATH; kubectl fairlead "+args+" || [ $? = 1 ]")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pluginDir builds the plugin.
func pluginDir(t *testing.T) string {
	t.Helper()
	return filepath.Dir(tree.Binary(t, "kubectl-fairlead"))
}

// Pods on real nodes look at their kernel and at each other. Where a firewall stands
// between nodes, they say so; and nothing of it is left.
func TestCheckOnNodes(t *testing.T) {
	tag, err := cluster.LoadFairlead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := site.Client(cluster)
	if err != nil {
		t.Fatal(err)
	}
	const home = "check-nodes"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}
	if err := client.IgnoreAlreadyExists(c.Create(t.Context(), ns)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), ns) })
	dir := pluginDir(t)
	check := "check --on-nodes --install-namespace " + home + " --image " + sandbox.FairleadRepository + ":" + tag
	got := plugin(t, dir, check)
	for _, node := range nodes {
		for _, want := range []string{" kernel: Linux ", " nftables: the kernel accepts the tables of the agent\n", " sysctls: nothing keeps the kernel from answering", " gossip: 2 other nodes answer on port 7947, by UDP and TCP\n"} {
			if !strings.Contains(got, "✓ node "+node+want) {
				t.Errorf("%q is missing in\n%s", "✓ node "+node+want, got)
			}
		}
		if left, err := cluster.Exec(t.Context(), node, "nft", "list", "tables"); err != nil || strings.Contains(string(left), "fairlead") {
			t.Errorf("%s has %s (%v)", node, left, err)
		}
	}
	eventually(t, "nothing is left", func() error {
		var pods corev1.PodList
		err := c.List(t.Context(), &pods, client.InNamespace(home))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are", len(pods.Items))
		}
		return err
	})

	const wall = "add table inet wall; add chain inet wall in { type filter hook input priority 0; }; add rule inet wall in tcp dport 7947 drop"
	if out, err := cluster.Exec(t.Context(), "node2", "nft", wall); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		_, _ = cluster.Exec(context.WithoutCancel(t.Context()), "node2", "nft", "delete table inet wall")
	})
	got = plugin(t, dir, check+" --wait 60s")
	for _, want := range []string{
		"✗ node node1 gossip: 1 of 2 nodes do not answer on port 7947: node2 (10.77.0.12) by tcp\n  → Allow port 7947, UDP and TCP, between nodes.\n",
		"✓ node node2 gossip: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// drainAsPlanned drains a node, and wants exactly the moves that "plan --drain" predicted.
func drainAsPlanned(t *testing.T, c client.Client) {
	t.Helper()
	dir := pluginDir(t)
	file := filepath.Join(t.TempDir(), "services.yaml")
	var all strings.Builder
	const count = 6
	for i := range count {
		fmt.Fprintf(&all, "---\n{apiVersion: v1, kind: Service, metadata: {name: planned%d}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}\n", i)
	}
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Shell(t.Context(), cluster, "kubectl apply -f "+file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = site.Shell(context.WithoutCancel(t.Context()), cluster, "kubectl delete -f "+file+"; kubectl uncordon "+strings.Join(nodes, " "))
	})
	announced := func() (map[string]string, error) {
		var agents v1alpha1.AgentList
		if err := c.List(t.Context(), &agents); err != nil {
			return nil, err
		}
		by := map[string]string{}
		for _, a := range agents.Items {
			for _, x := range a.Status.Addresses {
				if other := by[x.Address]; other != "" {
					return nil, fmt.Errorf("%s is announced by %s and %s", x.Address, other, a.Name)
				}
				by[x.Address] = a.Name
			}
		}
		return by, nil
	}
	var before map[string]string
	eventually(t, "all are announced", func() (err error) {
		if before, err = announced(); err == nil && len(before) < count+1 { // the example has one, too
			err = fmt.Errorf("only %v", before)
		}
		return err
	})
	drained := ""
	for _, node := range before {
		drained = max(drained, node)
	}
	var plan snapshot.Plan
	if err := json.Unmarshal([]byte(plugin(t, dir, "plan --drain "+drained+" -o json")), &plan); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for address, node := range before {
		want[address] = node
	}
	for _, m := range plan.Moves {
		if m.From != drained {
			t.Errorf("predicted that %s moves from %s", m.Address, m.From)
		}
		want[m.Address] = m.To
	}
	if len(plan.Moves) == 0 {
		t.Errorf("no move from %s is predicted: %v", drained, before)
	}
	if _, err := site.Shell(t.Context(), cluster, "kubectl drain "+drained+" --ignore-daemonsets --delete-emptydir-data --force --timeout=3m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was predicted has happened", func() error {
		got, err := announced()
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("predicted %v, happened %v", want, got)
		}
		return err
	})
}
