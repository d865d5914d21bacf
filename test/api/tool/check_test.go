package tool

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/rig"
)

func TestCheckCluster(t *testing.T) {
	w := newWorld(t)
	if got, code := run(t, "check"); code != 0 || !strings.Contains(got, "✓ Kubernetes: v1.") || !strings.Contains(got, "✓ other load balancers: ") ||
		!strings.Contains(got, "SKIP pod security: namespace fairlead-system has no label") || !strings.Contains(got, "SKIP nodes: kernel, sysctls, nftables and gossip between nodes are only checked with --on-nodes\n") {
		t.Errorf("exit %d:\n%s", code, got)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	enforce := func(level any) {
		t.Helper()
		if err := theRig.Client.Patch(t.Context(), ns, mergePatch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"pod-security.kubernetes.io/enforce": level}}})); err != nil {
			t.Fatal(err)
		}
	}
	other := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controller-0"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "quay.io/metallb/controller:v0.15.2", Ports: []corev1.ContainerPort{{ContainerPort: 7947, HostPort: 7947}}}}},
	}
	create(t, other)
	enforce("restricted")
	defer enforce(nil)
	w.service("old", nil)
	old := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}}
	rig.Eventually(t, "another controller gives an address", func() error {
		return theRig.Client.Status().Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`)))
	})
	got, code := run(t, "check")
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"✗ other load balancers: MetalLB runs (pod fairlead-system/controller-0): two controllers of one class overwrite each other\n  → Replace it: docs/guides/migrate-from-metallb.md. ",
		"✗ ports: fairlead-system/controller-0 has port 7947 of its node, which agents use\n",
		"✗ Services: 1 have an address of another load balancer: shop/old. ",
		"✗ pod security: namespace fairlead-system enforces level \"restricted\"; agents need the network of their node\n  → kubectl label --overwrite namespace fairlead-system pod-security.kubernetes.io/enforce=privileged\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// Files are checked without a cluster.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func() (string, int) { return runWith(t, filepath.Join(dir, "no kubeconfig"), "check", "-f", dir) }
	write("pools.yaml", `# our addresses
apiVersion: fairlead.io/v1alpha1
kind: Pool
metadata: {name: edge}
spec: {addresses: [192.0.2.0/29]}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: lan, namespace: metallb-system}
spec: {addresses: [198.51.100.0/30]}
`)
	write("service.yaml", `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {fairlead.io/pool: edge}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
`)
	write("notes.txt", "not YAML: {")
	if got, code := check(); code != 0 || got != `SKIP Deployment: 1 objects: Fairlead does not read this kind
✓ pool edge: 1 of 8 used, 7 free
✓ pool metallb/lan: 0 of 4 used, 4 free
✓ service shop/web: backend announce
` {
		t.Errorf("exit %d:\n%s", code, got)
	}
	write("wrong.yaml", `
apiVersion: fairlead.io/v1alpha1
kind: Pool
metadata: {name: lab}
spec: {addresses: [192.0.2.4-192.0.2.9]}
---
apiVersion: fairlead.io/v1alpha1
kind: Pool
metadata: {name: typo}
spec: {addresses: [192.0.2.300]}
---
apiVersion: fairlead.io/v1alpha1
kind: Pool
metadata: {name: field}
spec: {adresses: [192.0.2.30]}
---
apiVersion: v1
kind: Service
metadata: {name: api, annotations: {fairlead.io/pools: edge}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: named, annotations: {metallb.universe.tf/loadBalancerIPs: 203.0.113.1}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
`)
	got, code := check()
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"wrong.yaml: document 3: strict decoding error: unknown field \"spec.adresses\"\n",
		"✗ pool lab: PoolOverlap: Pool \"lab\" is refused: its addresses 192.0.2.4/30 overlap with pool \"edge\". Change or delete one of them.\n",
		"✗ pool typo: PoolInvalid: ",
		"✗ service default/api: Nothing reads annotation fairlead.io/pools.\n",
		"✗ service default/named: AddressNotInPool: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// The bundle of a real cluster has everything but secrets, and never replaces a file.
func TestBundle(t *testing.T) {
	w := newWorld(t)
	w.install("n1")
	w.pool("edge", "192.0.2.16/30")
	w.service("web", nil, "n1")
	w.announced("web")
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token"}, StringData: map[string]string{"token": "hunter22"}})
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	// There are no kubelets, so the log of the pod on the node cannot be read.
	if got, code := run(t, "bundle", "--file", file); code != 2 || !strings.HasPrefix(got, file+" has the facts of ") ||
		!strings.Contains(got, "? unknown: cannot read the log of pod fairlead-system/fairlead-agent-n1: ") {
		t.Fatalf("exit %d: %s", code, got)
	}
	if got, code := run(t, "bundle", "--file", file); code != 2 || !strings.Contains(got, "file exists") {
		t.Errorf("exit %d: %s", code, got)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	zip, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"hunter22": false, "kind: Secret": false, "objects/agents.yaml": true, "address: 192.0.2.16": true, "missing.txt": true, "cannot read the log of pod": true} {
		if strings.Contains(string(all), text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}
