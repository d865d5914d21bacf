package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/rig"
)

// An address that is announced on a LAN and to routers is told of twice. If no router hears of
// it, it is reachable on the LAN, and that the routers do not is a problem all the same.
func TestLANAndBGP(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1", "n2")
	w.peer("tor", "192.0.2.1")
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "both"}}
	p.Spec.Addresses = []v1alpha1.Span{"192.0.2.8/29"}
	p.Spec.Advertise.Interfaces = []string{"eth0"}
	p.Spec.Advertise.BGP = &v1alpha1.BGP{}
	create(t, p)
	w.service("web", nil, "n1", "n2")
	var owner string
	rig.Eventually(t, "a node announces it on the LAN", func() error {
		got, code := run(t, "ip")
		lines := strings.Split(got, "\n")
		if fields := strings.Fields(lines[1]); code == 0 && strings.Contains(got, ", n") && strings.Contains(got, "eth0, BGP") {
			owner = strings.TrimSuffix(fields[3], ",")
			return nil
		}
		return fmt.Errorf("exit %d: %s", code, got)
	})
	other := map[string]string{"n1": "n2", "n2": "n1"}[owner]
	if got, _ := run(t, "ip"); !strings.Contains(got, "192.0.2.8   both   shop/web   "+owner+", "+other+"   eth0, BGP   ") {
		t.Error(got)
	}
	expect(t, "why shop/web", 0, `
shop/web  192.0.2.8  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "both" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1 and n2
✓ announced: 192.0.2.8 by node `+owner+` on eth0, for TIME
✓ announced: 192.0.2.8 by BGP from n1 and n2 to tor, for TIME
`)
	expect(t, "status", 0, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      2 of 2 ready
Pools       both: 1 of 8 used, 7 free
Services    announce: 1 ok; BGP: 2 of 2 sessions with 1 router established
✓ No problem found.
`)
	for _, r := range w.routers {
		r.Refuse("tor", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
	}
	expect(t, "status", 1, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      2 of 2 ready
Pools       both: 1 of 8 used, 7 free
Services    announce: 1 ok; BGP: 0 of 2 sessions with 1 router established
✗ peer tor: SessionsMissing: 0 of 2 nodes have a session with the router. n1 and n2: connection refused.
  → kubectl describe bgppeer -n metallb-system tor
`)
}

// routes are the nodes that say that they announce each address by BGP, and those of them that
// drain are told by none.
func routes(t *testing.T) map[string][]string {
	t.Helper()
	var agents v1alpha1.AgentList
	if err := theRig.Client.List(t.Context(), &agents); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, a := range agents.Items {
		for _, x := range a.Status.Addresses {
			if x.Protocol == "BGP" {
				out[x.Address] = append(out[x.Address], a.Name)
			}
		}
	}
	for _, nodes := range out {
		slices.Sort(nodes)
	}
	return out
}

// What plan -f and plan --remove predict about routes is what then happens.
func TestPlanRoutesIsWhatHappens(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1", "n2", "n3")
	for _, name := range []string{"n1", "n2", "n3"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := theRig.Client.Patch(t.Context(), n, mergePatch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{corev1.LabelHostname: name}}})); err != nil {
			t.Fatal(err)
		}
	}
	w.peer("tor", "192.0.2.1")
	w.routed("edge", "192.0.2.16/30")
	w.service("web", nil, "n1", "n2", "n3")
	create(t, &metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: "theirs"}, Spec: metallb.IPAddressPoolSpec{Addresses: []string{"198.51.100.0/30"}}})
	bgpObject(t, "v1beta1", "BGPAdvertisement", "theirs", map[string]any{"ipAddressPools": []any{"theirs"}})
	w.service("shop", func(s *corev1.Service) { s.Annotations = map[string]string{"metallb.io/address-pool": "theirs"} }, "n1", "n2", "n3")
	all := []string{"n1", "n2", "n3"}
	rig.Eventually(t, "all nodes announce both", func() error {
		if diff := cmp.Diff(map[string][]string{"192.0.2.16": all, "198.51.100.0": all}, routes(t)); diff != "" {
			return fmt.Errorf("want -, got +:\n%s", diff)
		}
		return nil
	})
	happens := func(what string, change func() error, args ...string) snapshot.Plan {
		t.Helper()
		p := plan(t, args...)
		want := routes(t)
		for _, r := range p.Routes {
			if !cmp.Equal(r.Before, want[r.Address]) {
				t.Errorf("%s: before, %s announce %s; they are %v", what, r.Before, r.Address, want[r.Address])
			}
			if want[r.Address] = r.After; len(r.After) == 0 {
				delete(want, r.Address)
			}
		}
		if cmp.Equal(want, routes(t)) {
			t.Errorf("%s: nothing is predicted: %+v", what, p)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, what, func() error {
			if diff := cmp.Diff(want, routes(t)); diff != "" {
				return fmt.Errorf("predicted -, happened +:\n%s", diff)
			}
			return nil
		})
		return p
	}
	applied := func(what, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "change.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		happens(what, func() error { return replace(t, text) }, "-f", file)
	}
	on := func(node string) string {
		return "nodeSelectors: [{matchLabels: {kubernetes.io/hostname: " + node + "}}]"
	}
	applied("an advertisement is for one node", `{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: theirs, namespace: metallb-system}, spec: {ipAddressPools: [theirs], `+on("n2")+`}}`)
	applied("a pool is for one node", `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16/30], advertise: {`+on("n3")+`, bgp: {}}}}`)
	applied("the peer is for one node", `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1, `+on("n2")+`}}`)
	applied("the pool is for all nodes again", `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16/30], advertise: {nodeSelectors: [], bgp: {peers: [tor]}}}}`)
	applied("a second peer", `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor-2, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.2}}
---
{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16/30], advertise: {bgp: {peers: []}}}}`)

	edge := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	gone := happens("the pool is removed", func() error { return theRig.Client.Delete(t.Context(), edge) }, "--remove", "edge")
	if len(gone.Moves) != 1 { // of an address that is in no pool is known only that it is on a LAN
		t.Fatalf("predicted %+v", gone)
	}
	rig.Eventually(t, "it is announced on the LAN", func() error {
		by, err := w.announcer("web")
		if err == nil && by != gone.Moves[0].To {
			err = fmt.Errorf("by %q, predicted %+v", by, gone.Moves)
		}
		return err
	})
	// Advertisements of MetalLB go on for a pool that is gone, while they name it.
	got, code := run(t, "plan", "--remove", "metallb/theirs")
	if code != 0 || strings.Contains(got, "BGP from") || !strings.Contains(got, "OutOfPool") {
		t.Errorf("exit %d: %s", code, got)
	}
	before := routes(t)
	if err := theRig.Client.Delete(t.Context(), &metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: "theirs"}}); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the Service says so", func() error {
		if got, _ := run(t, "why", "shop/shop"); !strings.Contains(got, "from no pool") || !cmp.Equal(routes(t), before) {
			return fmt.Errorf("%s; %v, was %v", got, routes(t), before)
		}
		return nil
	})
}

// replace makes objects what a text says.
func replace(t *testing.T, text string) error {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		want := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &want.Object); err != nil {
			return err
		}
		is := want.DeepCopy()
		err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(want), is)
		if err == nil {
			want.SetResourceVersion(is.GetResourceVersion())
			err = theRig.Client.Update(t.Context(), want)
		} else if client.IgnoreNotFound(err) == nil {
			err = theRig.Client.Create(t.Context(), want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Peers of kube-vip's variables are in annotations of Nodes: each node has its own.
func TestKubeVIPPeersOfNodes(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.variables = []corev1.EnvVar{{Name: "bgp_enable", Value: "true"}, {Name: "annotations", Value: "metal.equinix.com"}}
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}, Data: map[string]string{"range-global": "192.0.2.40-192.0.2.47"}})
	t.Cleanup(func() {
		_ = theRig.Kube.CoreV1().ConfigMaps("kube-system").Delete(context.Background(), "kubevip", metav1.DeleteOptions{})
	})
	w.install("n1", "n2", "n3")
	for name, address := range map[string]string{"n1": "10.99.0.1", "n2": "10.99.0.2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		annotations := map[string]any{"metal.equinix.com/bgp-peers-0-node-asn": "65010", "metal.equinix.com/bgp-peers-0-peer-asn": "65001", "metal.equinix.com/bgp-peers-0-peer-ip": address}
		if err := theRig.Client.Patch(t.Context(), n, mergePatch(t, map[string]any{"metadata": map[string]any{"annotations": annotations}})); err != nil {
			t.Fatal(err)
		}
	}
	w.service("web", nil, "n1", "n2", "n3")
	expect(t, "why shop/web", 0, `
shop/web  192.0.2.40  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.40 from pool "kube-vip/range-global" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1, n2 and n3
✓ announced: 192.0.2.40 by BGP from n1 and n2 to kube-vip/10.99.0.1 and kube-vip/10.99.0.2, for TIME
    n3 has no peer that the address is announced to
`)
	expect(t, "status", 0, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      3 of 3 ready
Pools       kube-vip/range-global: 1 of 8 used, 7 free
Services    announce: 1 ok; BGP: 2 of 2 sessions with 2 routers established
✓ No problem found.
`)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(`{apiVersion: v1, kind: Node, metadata: {name: n3, annotations: {metal.equinix.com/node-asn: "65010", metal.equinix.com/peer-asn: "65001", metal.equinix.com/peer-ip: 10.99.0.3}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plan(t, "-f", file)
	if len(p.Routes) != 1 || !slices.Equal(p.Routes[0].After, []string{"n1", "n2", "n3"}) {
		t.Errorf("predicted %+v", p)
	}
	w.routers["n2"].Refuse("kube-vip/10.99.0.2", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
	rig.Eventually(t, "the missing session is told", func() error {
		if got, code := run(t, "status"); code != 1 || !strings.Contains(got, "✗ peer kube-vip/10.99.0.2: ") || strings.Contains(got, "bgppeer ") {
			return fmt.Errorf("exit %d: %s", code, got)
		}
		return nil
	})
}

// Clusters whose CRDs are old have BGPPeers of v1beta1 only.
func TestOldPeers(t *testing.T) {
	theRig.InstallMetalLB(t, rig.OldMetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1", "n2")
	bgpObject(t, "v1beta1", "BGPPeer", "tor", map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "192.0.2.1"})
	w.routed("edge", "192.0.2.16/30")
	w.service("web", nil, "n1", "n2")
	expect(t, "why shop/web", 0, `
shop/web  192.0.2.16  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.16 from pool "edge" (1 of 4 used, 3 free)
✓ endpoints: pods serve on n1 and n2
✓ announced: 192.0.2.16 by BGP from n1 and n2 to tor, for TIME
`)
	expect(t, "status", 0, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      2 of 2 ready
Pools       edge: 1 of 4 used, 3 free
Services    announce: 1 ok; BGP: 2 of 2 sessions with 1 router established
✓ No problem found.
`)
	file := filepath.Join(t.TempDir(), "peer.yaml")
	if err := os.WriteFile(file, []byte(`{apiVersion: metallb.io/v1beta1, kind: BGPPeer, metadata: {name: tor, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1, nodeSelectors: [{matchLabels: {rack: "1"}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := plan(t, "-f", file); len(p.Routes) != 1 || len(p.Routes[0].After) != 0 || p.Health() != snapshot.Problems {
		t.Errorf("predicted %+v", p)
	}
}

// What is wrong with a pool's routes, or with what a Service asks for about them, is told before
// it is applied.
func TestCheckRoutesInFiles(t *testing.T) {
	const pools = `
{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.0/28], advertise: {bgp: {peers: [tor, ghost]}}}}
---
{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: wrong}, spec: {addresses: [198.51.100.0/28], advertise: {bgp: {communities: [gold], aggregationLength: 24}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, annotations: {fairlead.io/bgp-communities: "1:70000", fairlead.io/bgp-local-pref: much}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`
	const peers = `---
{apiVersion: metallb.io/v1beta1, kind: BGPPeer, metadata: {name: tor, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1}}
---
{apiVersion: metallb.io/v1beta1, kind: Community, metadata: {name: names, namespace: metallb-system}, spec: {communities: [{name: gold, value: "64500:7"}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: named, namespace: shop, annotations: {fairlead.io/bgp-communities: "gold, silver"}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`
	file := filepath.Join(t.TempDir(), "files.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(pools)
	expect(t, "check -f "+file, 1, `
✓ pool edge: 1 of 16 used, 15 free
✗ pool wrong: PoolInvalid: The pool is refused: advertise.bgp.communities[0]: "gold" is not a community; write it as 64500:7 or large:64500:1:2; advertise.bgp: a prefix of length 24 is wider than 198.51.100.0/28, an entry of the pool (/28). Correct it.
SKIP pool edge: advertise.bgp.peers names "tor" and "ghost", and the files have no BGPPeer
✗ service shop/web: BGPAnnotationInvalid: Annotation fairlead.io/bgp-communities: "1:70000" is not a community: "70000" is not a number of 16 bits; write it as 64500:7; annotation fairlead.io/bgp-local-pref: "much" is not a number between 0 and 4294967295
  → Correct the annotation: docs/reference/annotations.md.
`)
	write(pools + peers)
	expect(t, "check -f "+file, 1, `
✓ pool edge: 2 of 16 used, 14 free
✗ pool wrong: PoolInvalid: The pool is refused: advertise.bgp.communities[0]: "gold" is not a community; write it as 64500:7 or large:64500:1:2; advertise.bgp: a prefix of length 24 is wider than 198.51.100.0/28, an entry of the pool (/28). Correct it.
✗ pool edge: advertise.bgp.peers names BGPPeers that are not in the files, or are refused: "ghost"
  → Correct the names, or create the peers.
✓ bgppeer tor: it can be used
✓ community names: it can be used
✗ service shop/web: BGPAnnotationInvalid: Annotation fairlead.io/bgp-communities: "1:70000" is not a community: "70000" is not a number of 16 bits; write it as 64500:7; annotation fairlead.io/bgp-local-pref: "much" is not a number between 0 and 4294967295
  → Correct the annotation: docs/reference/annotations.md.
✗ service shop/named: BGPAnnotationInvalid: No Community object defines "silver"
  → Correct the annotation: docs/reference/annotations.md.
`)
}
