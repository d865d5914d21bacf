package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/backend/cloudsigma"
	backendovn "fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

// whyAddr is the address of the Service that everything happens to.
const whyAddr = "192.0.2.7"

// reasonWorld is a cluster in which one thing is wrong at a time. What the daemons would have
// written is written by the test.
type reasonWorld struct {
	*world
	settings map[string]string // file of the configuration, by backend
}

func newReasonWorld(t *testing.T) *reasonWorld {
	t.Helper()
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	installKubeDC(t)
	w := &reasonWorld{world: newWorld(t), settings: map[string]string{}}
	dir := t.TempDir()
	for _, backend := range []string{"announce", "ovn", "cloudscale", "cloudsigma"} {
		w.settings[backend] = filepath.Join(dir, backend+".yaml")
		text := fmt.Sprintf(`{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: test, classes: [{name: "", backend: %s}]}`, backend)
		if err := os.WriteFile(w.settings[backend], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.pod("fairlead-controller-x7k", "controller", "")
	create(t, leaseOf(namespace, "fairlead-controller-x7k"))
	w.node("worker-1", netip.MustParseAddr("192.0.2.201"))
	w.pod("fairlead-agent-worker-1", "agent", "worker-1")
	create(t, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})
	w.service("web", func(s *corev1.Service) { s.Annotations = map[string]string{kubedc.AnnotationEIp: "web"} }, "worker-1")
	return w
}

// router says whether the namespace has a router of OVN.
func (w *reasonWorld) router(t *testing.T, name any) {
	t.Helper()
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := theRig.Client.Patch(context.Background(), shop, mergePatch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{kubedc.AnnotationRouter: name}}})); err != nil {
		t.Fatal(err)
	}
}

// healthy is how the Service and the agent are if all is well.
func healthy() (corev1.ServiceStatus, v1alpha1.AgentStatus) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	condition := func(kind, reason, text string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: text, LastTransitionTime: now}
	}
	service := corev1.ServiceStatus{
		LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: whyAddr}}},
		Conditions:   []metav1.Condition{condition(kubeapi.ConditionReady, string(lb.Ready), lb.Common[lb.Ready].Example())},
	}
	agent := v1alpha1.AgentStatus{
		Announced: 1, KubeProxy: v1alpha1.KubeProxyHealthy,
		Addresses:  []v1alpha1.Announcement{{Address: whyAddr, Interface: "eth0", Protocol: "ARP", Since: now, Services: []string{"shop/web"}}},
		Interfaces: []v1alpha1.Interface{{Name: "eth0", Up: true, Families: []string{"IPv4"}}},
		Conditions: []metav1.Condition{condition("Ready", string(lb.AgentReady), lb.Common[lb.AgentReady].Example())},
	}
	return service, agent
}

// unannounced has an agent say that nobody announces the address.
func unannounced(a *v1alpha1.AgentStatus, code lb.Code, text string) {
	a.Announced, a.Addresses = 0, nil
	a.Unannounced = []v1alpha1.Unannounced{{Address: whyAddr, Services: []string{"shop/web"}, Reason: string(code), Message: text, Since: metav1.Now()}}
}

// routed has an agent announce the address to a router, with which its session is so.
func routedTo(a *v1alpha1.AgentStatus, state string, code lb.Code, text string) {
	a.Addresses[0].Interface, a.Addresses[0].Protocol = "", "BGP"
	a.Peers = []v1alpha1.Peer{{Name: "tor", Address: "192.0.2.1", State: state, Reason: string(code), Message: text}}
}

// silences are the reasons of the condition that nobody announces an address.
var silences = []lb.Code{lb.NotAnnounced, lb.NoServingEndpoint, lb.AddressConflict, lb.AddressRefused, lb.NoAgent, lb.AnnouncerLost}

// sessionEnds are reasons for which there is no session; with others it is impaired.
var sessionEnds = []lb.Code{lb.PeerDown, lb.PeerRefused, lb.PeerConflict, lb.PeerUnusable, metallb.SessionsMissing}

// objects that have the reason by themselves.
var objectsWith = map[lb.Code]string{
	lb.PoolInvalid:      `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: extra}, spec: {addresses: [198.51.100.9-198.51.100.3]}}`,
	lb.PoolOverlap:      `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: extra}, spec: {addresses: [192.0.2.6-192.0.2.9]}}`,
	lb.PoolDisabled:     `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: extra}, spec: {addresses: [198.51.100.0/29], disabled: true}}`,
	kubevip.KeyInvalid:  `{apiVersion: v1, kind: ConfigMap, metadata: {name: kubevip, namespace: kube-system}, data: {cidr-global: 192.0.2.300}}`,
	kubevip.KeyUnknown:  `{apiVersion: v1, kind: ConfigMap, metadata: {name: kubevip, namespace: kube-system}, data: {cird-global: 198.51.100.0/29}}`,
	kubevip.KeyShadowed: `{apiVersion: v1, kind: ConfigMap, metadata: {name: kubevip, namespace: kube-system}, data: {cidr-global: 198.51.100.0/29, range-shop: 198.51.100.9-198.51.100.10}}`,
	metallb.PeerUnused:  `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: far, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1}}`,
}

// backendOf is the one whose reason it is.
func backendOf(code lb.Code) string {
	has := func(t lb.Table) bool { _, is := t[code]; return is }
	switch {
	case has(backendovn.Reasons), has(eip.Reasons), has(kubedc.Reasons):
		return "ovn"
	case has(cloudscale.Reasons):
		return "cloudscale"
	case has(cloudsigma.Reasons):
		return "cloudsigma"
	}
	return "announce"
}

// happens brings the reason about, and returns the backend that the Service has.
func (w *reasonWorld) happens(t *testing.T, code lb.Code) string {
	t.Helper()
	about, backend := reasons.All[code], backendOf(code)
	if backend == "ovn" && code != eip.NotAProject {
		w.router(t, "shop")
		t.Cleanup(func() { w.router(t, nil) })
	}
	text := about.Example()
	service, agent := healthy()
	says := func(status metav1.ConditionStatus) {
		c := &service.Conditions[0]
		if c.Status, c.Reason, c.Message = status, string(code), text; status == metav1.ConditionFalse {
			service.LoadBalancer.Ingress = nil
			unannounced(&agent, "", "")
			agent.Unannounced = nil
		}
	}
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{whyAddr}}}
	switch {
	case about.On == "Service" && slices.Contains(silences, code):
		unannounced(&agent, code, text)
	case about.On == "Service" && code == eip.NotAProject:
		service = corev1.ServiceStatus{}
	case about.On == "Service" && about.Event:
		w.event(t, code, text, about.Warning)
	case about.On == "Service" && about.Ready:
		says(metav1.ConditionTrue)
	case about.On == "Service":
		says(metav1.ConditionFalse)
	case about.Ready, about.On == "Node":
	case about.On == "EIp":
		says(metav1.ConditionFalse)
		service.Conditions[0].Reason, service.Conditions[0].Message = string(eip.AddressPending), eip.Reasons[eip.AddressPending].Example()
		apply(t, strings.ReplaceAll(strings.ReplaceAll(eipWith, "REASON", string(code)), "TEXT", fmt.Sprintf("%q", text)))
	case strings.HasPrefix(string(code), "Agent"):
		agent.Announced, agent.Addresses = 0, nil
		agent.Conditions[0].Status, agent.Conditions[0].Reason, agent.Conditions[0].Message = metav1.ConditionFalse, string(code), text
	case about.On == "Agent", strings.HasPrefix(string(code), "Sessions"), strings.HasPrefix(string(code), "BFD") && !strings.HasPrefix(string(code), "BFDProfile") && about.On == "BGPPeer":
		pool.Spec.Advertise.BGP = &v1alpha1.BGP{}
		apply(t, `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor, namespace: metallb-system}, spec: {myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1}}`)
		state := "Established"
		if slices.Contains(sessionEnds, code) {
			state = "Idle"
		}
		routedTo(&agent, state, code, text)
	default:
		unannounced(&agent, lb.NotAnnounced, lb.Common[lb.NotAnnounced].Example())
		if objects, own := objectsWith[code]; own {
			apply(t, objects)
			break
		}
		kind := strings.Replace(about.On, "MetalLB's kinds", metallb.KindAdvertisement, 1)
		agent.Refused = []v1alpha1.Refused{{Kind: kind, Name: "edge", Reason: string(code), Message: text}}
	}
	if code != lb.NoPool {
		create(t, pool)
		t.Cleanup(func() {
			if err := theRig.Client.Delete(context.Background(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	w.write(t, service, agent)
	return backend
}

// eipWith is an EIp that has a reason, in the project of the Service.
const eipWith = `
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: shop}, spec: {namespaces: [shop]}, status: {router: shop}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: ext-public, labels: {network.kube-dc.com/external-network-type: public}}, spec: {protocol: IPv4, cidrBlock: 168.119.17.48/28, gateway: 168.119.17.49, vlan: ext-public}}
---
apiVersion: kube-dc.com/v1
kind: EIp
metadata: {name: web, namespace: shop}
spec: {externalNetworkType: public}
status: {ready: false, ovnEIpRef: eip-shop-web, ownershipType: Exclusive, conditions: [{type: Ready, status: "False", reason: REASON, message: TEXT, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`

// write makes the Service and the Agent say this.
func (w *reasonWorld) write(t *testing.T, service corev1.ServiceStatus, agent v1alpha1.AgentStatus) {
	t.Helper()
	rig.Eventually(t, "the statuses are written", func() error {
		s := &corev1.Service{}
		if err := theRig.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, s); err != nil {
			return err
		}
		s.Status = service
		if err := theRig.Client.Status().Update(t.Context(), s); err != nil {
			return err
		}
		a := &v1alpha1.Agent{}
		if err := theRig.Client.Get(t.Context(), client.ObjectKey{Name: "worker-1"}, a); err != nil {
			return err
		}
		a.Status = agent
		return theRig.Client.Status().Update(t.Context(), a)
	})
}

// event writes one about the Service, and removes it when the test ends.
func (w *reasonWorld) event(t *testing.T, code lb.Code, text string, warning bool) {
	t.Helper()
	var s corev1.Service
	if err := theRig.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &s); err != nil {
		t.Fatal(err)
	}
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", GenerateName: "web."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web", UID: s.UID},
		Reason:         string(code), Message: text, Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(), Source: corev1.EventSource{Component: "fairlead"},
	}
	if warning {
		e.Type = corev1.EventTypeWarning
	}
	if err := theRig.Client.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = theRig.Kube.CoreV1().Events("shop").Delete(context.Background(), e.Name, metav1.DeleteOptions{})
	})
}

// row is what "why" says about a reason.
func row(t *testing.T, code lb.Code, w *snapshot.Why) string {
	t.Helper()
	text := reasons.All[code].Example()
	link := fmt.Sprintf("[%s](reasons.md#%s)", code, strings.ToLower(string(code)))
	cells := func(step, says string) string {
		return fmt.Sprintf("| %s | %s | %s |", link, step, strings.ReplaceAll(says, "|", `\|`))
	}
	var fixes []string
	for _, s := range w.Steps {
		if (s.Mark == snapshot.Failed) != (w.State != snapshot.OK) && s.Mark == snapshot.Failed {
			t.Errorf("%s: step %s fails, and the state is %s", code, s.Name, w.State)
		}
		names := s.Reason == string(code) || strings.Contains(s.Fact, text)
		for _, n := range s.Nodes {
			names = names || strings.Contains(n.Obstacle, strings.TrimSuffix(text, "."))
		}
		if !names {
			continue
		}
		for _, fix := range s.Fix {
			if strings.HasPrefix(fix, "kubectl ") {
				fix = "`" + fix + "`"
			}
			fixes = append(fixes, fix)
		}
		says := strings.Join(fixes, "<br>")
		switch {
		case s.Mark == snapshot.Passed && len(s.Nodes) > 0:
			return cells("✓ "+s.Name, "The step holds. It names the node and what is wrong with its session.")
		case s.Mark == snapshot.Passed && strings.Contains(s.Fact, text):
			return cells("✓ "+s.Name, "The step holds. It shows the sentence.")
		case s.Mark == snapshot.Passed:
			if reasons.All[code].Warning {
				t.Errorf("step %s does not show the sentence of warning %s: %q", s.Name, code, s.Fact)
			}
			return cells("✓ "+s.Name, "The step holds.")
		case s.Mark == snapshot.Noted:
			return cells("! "+s.Name, says)
		}
		return cells("✗ "+s.Name, says)
	}
	switch about := reasons.All[code]; {
	case w.State == snapshot.OK && (about.Ready || !about.Warning):
		return cells("none", "All steps hold: nothing is wrong.")
	case w.State == snapshot.OK && about.On == "Node":
		return cells("none", "It is about a Node that is not initialized: `kubectl describe node`.")
	}
	t.Errorf("why says nothing about %s: %+v", code, w)
	return ""
}

// why explains what every reason of the closed list comes to. The page of the reference is what it
// says here, on a real API server; with -update it is written.
func TestWhyForEveryReason(t *testing.T) {
	w := newReasonWorld(t)
	var page strings.Builder
	page.WriteString(`# What "why" says for each reason

<!-- Made by "go test ./test/api/tool -run TestWhyForEveryReason -update". Do not edit. -->

For each [reason](reasons.md): the step of ` + "`kubectl fairlead why`" + ` that names it, and what the command
proposes. A step with ✗ does not hold. A step with ! is a note: what is wrong with an object of the
configuration, if a step does not hold, or what only an event says. The page is what the command says to a
real API server.

| reason | step | proposal |
|---|---|---|
`)
	for _, code := range slices.Sorted(maps.Keys(reasons.All)) {
		t.Run(string(code), func(t *testing.T) {
			backend := w.happens(t, code)
			got, exit := run(t, "why", "shop/web", "-o", "json", "--config", w.settings[backend])
			var all struct{ Items []*snapshot.Why }
			if err := json.Unmarshal([]byte(got), &all); err != nil || len(all.Items) != 1 {
				t.Fatalf("%v: %s", err, got)
			}
			if ok := all.Items[0].State == snapshot.OK; ok != (exit == 0) {
				t.Errorf("exit %d, and the state is %s", exit, all.Items[0].State)
			}
			page.WriteString(row(t, code, all.Items[0]) + "\n")
		})
	}
	script.File(t, "../../../docs/reference/why.md", page.String())
}
