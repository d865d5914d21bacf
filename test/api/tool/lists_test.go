package tool

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.io/charts"
	"fairlead.io/test/kit/rig"
)

// maxLists is how many lists status may make.
const maxLists = 10

// listener is an API server that notes what is asked of it.
type listener struct {
	kubeconfig string

	mu    sync.Mutex
	lists []string
	wrote []string
}

// listen stands between a command and the API server.
func listen(t *testing.T) *listener {
	t.Helper()
	api := theRig.API.RESTConfig()
	transport, err := rest.TransportFor(api)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(api.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = transport
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		if isList(r.URL.Path) {
			l.lists = append(l.lists, r.URL.Path)
		}
		if r.Method != http.MethodGet {
			l.wrote = append(l.wrote, r.Method+" "+r.URL.Path)
		}
		l.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL)
	if err := os.WriteFile(l.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// isList says whether a path is that of all objects of a kind, not of one, nor of what kinds there are.
func isList(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return len(parts) == 1
}

// status runs the command, checks what it asks for, and returns what it says.
func (l *listener) status(t *testing.T, args ...string) (string, int) {
	t.Helper()
	l.lists, l.wrote = nil, nil
	got, code := runWith(t, l.kubeconfig, append([]string{"status"}, args...)...)
	if n := len(l.lists); n > maxLists || n < 5 || len(l.wrote) > 0 {
		t.Errorf("status makes %d lists, %s, and writes %s", n, l.lists, l.wrote)
	}
	return got, code
}

// A cluster with a thousand Services is read by at most ten lists, and nothing is written.
func TestThousandServices(t *testing.T) {
	w := newWorld(t)
	w.pool("edge", "198.18.0.0/20")
	var running sync.WaitGroup
	for part := range 10 {
		running.Go(func() {
			for i := range 100 {
				w.service(fmt.Sprintf("web-%d-%d", part, i), nil)
			}
		})
	}
	running.Wait()
	t.Cleanup(func() { // at the same time, too: one after the other takes minutes on a busy machine
		for part := range 10 {
			running.Go(func() {
				for i := range 100 {
					name := fmt.Sprintf("web-%d-%d", part, i)
					if err := theRig.Kube.CoreV1().Services("shop").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
	})
	l := listen(t)
	began := time.Now()
	got, _ := l.status(t)
	t.Logf("status of 1,000 Services took %s", time.Since(began).Round(time.Millisecond))
	if !strings.Contains(got, "announce: 0 ok, 1000 waiting\n") {
		t.Error(got)
	}
}

// everything is a cluster of all formats and backends, with BGP.
const everything = `
{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: theirs, namespace: metallb-system}, spec: {addresses: [192.0.2.64/29], serviceAllocation: {namespaceSelectors: [{matchLabels: {kubernetes.io/metadata.name: shop}}]}}}
---
{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: lan, namespace: metallb-system}, spec: {ipAddressPools: [theirs]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: named, namespace: metallb-system}, spec: {ipAddressPools: [theirs], communities: [gold]}}
---
{apiVersion: metallb.io/v1beta1, kind: Community, metadata: {name: colours, namespace: metallb-system}, spec: {communities: [{name: gold, value: "64500:1"}]}}
---
{apiVersion: metallb.io/v1beta1, kind: BFDProfile, metadata: {name: fast, namespace: metallb-system}, spec: {}}
---
{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1, bfdProfile: fast}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kubevip, namespace: kube-system}, data: {cidr-shop: 192.0.2.72/29}}
`

// status makes at most ten lists where everything is used at once, and leaves out nothing that is
// wrong: what it does not read, the controller has written on other objects.
func TestListsOfEverything(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	installKubeDC(t)
	w := newWorld(t)
	apply(t, everything)
	w.install("n1", "n2")
	w.routed("edge", "192.0.2.8/29")
	w.service("web", nil, "n1", "n2")
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	text := `{apiVersion: fairlead.io/v1alpha1, kind: Configuration, classes: [{name: "", backend: announce}, {name: "example.com/ovn", backend: ovn}, {name: "example.com/kube-vip", backend: kube-vip}], ovn: {northbound: ["tcp:ovn-nb.kube-system.svc:6641"]}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	says := func(code int, facts ...string) {
		t.Helper()
		rig.Eventually(t, "status is as it should be", func() error {
			got, is := l.status(t, "--config", file)
			for _, fact := range facts {
				if is != code || !strings.Contains(got, fact) {
					return fmt.Errorf("exit %d, want %d and %q:\n%s", is, code, fact, got)
				}
			}
			return nil
		})
	}
	says(0, "announce: 1 ok; BGP: 2 of 2 sessions with 1 router established\n", "ovn: ", "kube-vip: ", "✓ No problem found.\n")
	for _, resource := range []string{"bgppeers", "bgpadvertisements", "l2advertisements", "ipaddresspools", "namespaces"} {
		if !slices.ContainsFunc(l.lists, func(path string) bool { return strings.HasSuffix(path, "/"+resource) }) {
			t.Errorf("%s are not read: %s", resource, l.lists)
		}
	}
	apply(t, `{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: mistaken, namespace: metallb-system}, spec: {ipAddressPools: [theirs], communities: [silver]}}`)
	says(1, "✗ bgpadvertisement mistaken: CommunityUnknown: ", `no Community object defines: "silver"`)
	bgpObject(t, "v1beta2", "BGPPeer", "unguarded", map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "192.0.2.2", "bfdProfile": "ghost"})
	says(1, "✗ bgppeer unguarded: BFDProfileMissing: ")
}
