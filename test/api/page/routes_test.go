package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/test/kit/browser"
	"fairlead.io/test/kit/rig"
)

// route has exactly these nodes announce an address to a router.
func (w *world) route(address, service string, nodes ...string) {
	w.t.Helper()
	for _, name := range w.nodes {
		w.mu.Lock()
		delete(w.has[name], address)
		for _, n := range nodes {
			if n == name {
				w.has[name][address] = v1alpha1.Announcement{Address: address, Services: []string{service}, Protocol: "BGP", Since: metav1.NewTime(time.Now().Add(-time.Hour))}
			}
		}
		w.mu.Unlock()
		w.report(name, withPeer("Established", "PeerReady", ""))
	}
}

// withPeer is a session with a router.
func withPeer(state, reason, message string) func(*v1alpha1.AgentStatus) {
	return func(s *v1alpha1.AgentStatus) {
		s.Peers = []v1alpha1.Peer{{Name: "tor", Address: "192.0.2.1", ASN: 64501, State: state, Reason: reason, Message: message}}
	}
}

// rings is whether an address has as many rings as nodes announce it by BGP, in their columns.
func rings(address string, nodes ...string) string {
	row := browser.Row(address)
	return fmt.Sprintf(`document.querySelector('%[1]s')?.dataset.nodes === '%[2]s' && document.querySelectorAll('%[1]s .ring:not(.went)').length === %[3]d && (%[3]d === 0 || document.querySelector('%[1]s .nobody').hidden)`,
		row, strings.Join(nodes, " "), len(nodes))
}

// An address that several nodes announce by BGP has a ring for each, and the timeline says which
// came and went.
func TestRoutes(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t, "worker-1", "worker-2", "worker-3", "worker-4")
	tor := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
		"spec": map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "192.0.2.1"}}}
	tor.SetNamespace(rig.MetalLBNamespace)
	tor.SetName("tor")
	create(t, tor)
	w.pool("anycast", func(p *v1alpha1.Pool) { p.Spec.Advertise.BGP = &v1alpha1.BGP{} }, "198.51.100.8/29")
	w.pool("edge", nil, "192.0.2.16/30")
	w.service("shop/web", map[string]string{"fairlead.io/pool": "anycast"})
	w.service("shop/lan", map[string]string{"fairlead.io/pool": "edge"})
	web, lan := w.address("shop/web"), w.address("shop/lan")
	w.announce("worker-2", lan, "shop/lan", time.Hour)
	w.route(web, "shop/web", "worker-1", "worker-2", "worker-3")

	page := browser.UI(t, theRig.API.Kubeconfig)
	tab := browser.Start(t).Open(page, 1440, 900)
	tab.Until("the page is painted", browser.Live)
	tab.Until("three nodes announce the address", rings(web, "worker-1", "worker-2", "worker-3"))
	tab.Until("the other has its dot, and no ring", browser.On(lan, "worker-2")+" && "+rings(lan))
	tab.Until("rings are in different columns", fmt.Sprintf(`new Set([...document.querySelectorAll('%s .ring')].map(r => r.getBoundingClientRect().left)).size === 3`, browser.Row(web)))
	tab.Until("the legend says what they are", `!document.querySelector('#matrix .legend').hidden`)
	colour := `getComputedStyle(document.querySelector('` + browser.Row(web) + ` .ring')).boxShadow`
	var light, dark string
	if err := tab.Eval(colour, &light); err != nil {
		t.Fatal(err)
	}
	tab.Dark(true)
	tab.Until("it is dark", `getComputedStyle(document.body).backgroundColor === 'rgb(16, 21, 27)'`)
	if err := tab.Eval(colour, &dark); err != nil || light == dark || dark == "none" {
		t.Errorf("rings are %q in light and %q in dark: %v", light, dark, err)
	}
	tab.Dark(false)

	w.route(web, "shop/web", "worker-1", "worker-2", "worker-3", "worker-4")
	tab.Until("a fourth node joins", rings(web, "worker-1", "worker-2", "worker-3", "worker-4"))
	said := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#timeline .row')].some(r => r.innerText.includes('%s'))`, text)
	}
	tab.Until("the timeline says so", said(web+" is announced by BGP from worker-4"))
	w.route(web, "shop/web", "worker-1", "worker-3", "worker-4")
	tab.Until("one leaves", rings(web, "worker-1", "worker-3", "worker-4"))
	tab.Until("the timeline says that, too", said(web+" is no longer announced by BGP from worker-2"))
	tab.Picture("page-bgp")

	// By keys: what one node announces, and why.
	tab.Key("/")
	for _, c := range "node:worker-4" {
		tab.Key(string(c))
	}
	tab.Until("the search finds it by one of its nodes", `document.querySelector('#matrix .count').textContent.startsWith('1 of')`)
	tab.Key("Enter")
	tab.Until("why names all of them", `document.querySelector('#why').innerText.includes('by BGP from worker-1, worker-3 and worker-4 to tor')`)
	tab.Key("Escape")
	tab.Key("/")
	tab.Key("Escape")

	// Nodes whose sessions are down announce it to nobody.
	for _, name := range w.nodes {
		w.report(name, withPeer("Idle", "PeerDown", "connection refused"))
	}
	tab.Until("nobody announces it", rings(web)+fmt.Sprintf(` && document.querySelector('%s .nobody').textContent === 'PeerDown'`, browser.Row(web)))
	tab.Until("the timeline has it", said(web+" is not announced"))
	onlyOwnOrigin(t, tab, page)
}
