package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/bgp"
	"fairlead.io/test/kit/rig"
)

// bgpObject makes an object about BGP beside MetalLB's.
func bgpObject(t *testing.T, version, kind, name string, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "metallb.io", Version: version, Kind: kind})
	o.SetNamespace(rig.MetalLBNamespace)
	o.SetName(name)
	create(t, o)
}

func (w *world) peer(name, address string) {
	w.t.Helper()
	bgpObject(w.t, "v1beta2", "BGPPeer", name, map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": address})
}

// routed makes a pool whose addresses are announced by BGP alone.
func (w *world) routed(name, addresses string) {
	w.t.Helper()
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Addresses = []v1alpha1.Span{v1alpha1.Span(addresses)}
	p.Spec.Advertise.BGP = &v1alpha1.BGP{}
	create(w.t, p)
}

// A Service that is announced by BGP is explained, counted and planned for with its nodes and
// its routers.
func TestBGP(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1", "n2", "n3")
	w.routed("edge", "192.0.2.8/29")
	w.service("web", nil, "n1", "n2")
	expect(t, "why shop/web", 1, `
shop/web  192.0.2.8  UNREACHABLE
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "edge" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1 and n2
✗ announced: NotAnnounced: Address 192.0.2.8 is not announced. The pool is advertised by BGP, and no node that could announce it has a peer. Create a BGPPeer, or change its nodeSelectors or the peers of the advertisement.
    n1 has no peer that the address is announced to
    n2 has no peer that the address is announced to
    n3 has no peer that the address is announced to
→ kubectl get bgppeers -n metallb-system -o wide
`)

	w.peer("tor-1", "192.0.2.1")
	w.peer("tor-2", "192.0.2.2")
	expect(t, "why shop/web", 0, `
shop/web  192.0.2.8  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "edge" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1 and n2
✓ announced: 192.0.2.8 by BGP from n1, n2 and n3 to tor-1 and tor-2, for TIME
`)
	expect(t, "status", 0, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      3 of 3 ready
Pools       edge: 1 of 8 used, 7 free
Services    announce: 1 ok; BGP: 6 of 6 sessions with 2 routers established
✓ No problem found.
`)
	if got, code := run(t, "ip"); code != 0 || !strings.Contains(got, "n1, n2, n3   BGP") {
		t.Errorf("exit %d:\n%s", code, got)
	}

	t.Run("one session is down", func(t *testing.T) {
		w.routers["n3"].Refuse("tor-1", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
		expect(t, "status", 1, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      3 of 3 ready
Pools       edge: 1 of 8 used, 7 free
Services    announce: 1 ok; BGP: 5 of 6 sessions with 2 routers established
✗ peer tor-1: SessionsMissing: 2 of 3 nodes have a session with the router. n3: connection refused.
  → kubectl describe bgppeer -n metallb-system tor-1
`)
		expect(t, "why shop/web", 0, `
shop/web  192.0.2.8  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "edge" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1 and n2
✓ announced: 192.0.2.8 by BGP from n1, n2 and n3 to tor-1 and tor-2, for TIME
    n3 has no session with tor-1: connection refused
`)
		w.routers["n3"].Take("tor-1")
	})

	t.Run("no session is up", func(t *testing.T) {
		for _, r := range w.routers {
			r.Refuse("tor-1", bgp.Failure{Kind: bgp.Refused, Text: "the router ended the session: OPEN message error, bad peer AS (2/2)"})
			r.Refuse("tor-2", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
		}
		expect(t, "why shop/web", 1, `
shop/web  192.0.2.8  UNREACHABLE
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "edge" (1 of 8 used, 7 free)
✓ endpoints: pods serve on n1 and n2
✗ announced: PeerRefused: No router hears of address 192.0.2.8: no node that announces it has a session. n1 with tor-1: the router ended the session: OPEN message error, bad peer AS (2/2).
    n1 has no session with tor-1: the router ended the session: OPEN message error, bad peer AS (2/2)
    n1 has no session with tor-2: connection refused
    n2 has no session with tor-1: the router ended the session: OPEN message error, bad peer AS (2/2)
    n2 has no session with tor-2: connection refused
    n3 has no session with tor-1: the router ended the session: OPEN message error, bad peer AS (2/2)
    n3 has no session with tor-2: connection refused
→ kubectl describe bgppeer -n metallb-system tor-1
→ kubectl describe bgppeer -n metallb-system tor-2
`)
		for _, r := range w.routers {
			r.Take("tor-1")
			r.Take("tor-2")
		}
	})

	t.Run("a drain moves nothing", func(t *testing.T) {
		rig.Eventually(t, "all sessions are up", func() error {
			if got, code := run(t, "status"); code != 0 {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
		got, code := run(t, "plan", "--drain", "n2")
		want := "192.0.2.8   BGP from n1, n2, n3 → n1, n2, n3 (n2: graceful shutdown)   no new connection fails; connections through nodes that routers no longer use may be reset\n"
		if code != 0 || !strings.Contains(got, want) {
			t.Errorf("exit %d:\n%s", code, got)
		}
	})
}

// Objects about BGP in files are read as the daemons read them: one that is wrong hides no
// other.
func TestCheckBGPFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bgp.yaml")
	const text = `
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system}
spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: slow, namespace: metallb-system}
spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.2, holdTime: 2s}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: typo, namespace: metallb-system}
spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.3, passwort: x}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: all, namespace: metallb-system}
spec: {communities: [gold]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, code := run(t, "check", "-f", file)
	for _, want := range []string{"✓ bgppeer tor: it can be used\n", "✗ bgppeer slow: PeerInvalid: ", "✗ bgppeer typo: unknown field \"passwort\" in spec\n", "✗ bgpadvertisement all: "} {
		if code != 1 || !strings.Contains(got, want) {
			t.Errorf("exit %d, without %q:\n%s", code, want, got)
		}
	}
}
