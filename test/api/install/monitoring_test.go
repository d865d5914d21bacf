package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/compat/native"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/simulator"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/prometheus"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// monitored is a cluster with a release, the real controller, agents, a simulated cloud,
// and Debian's Prometheus, which finds and reads them as the guide says.
type monitored struct {
	*testing.T
	c          client.Client
	prometheus *prometheus.Server
	services   int
}

// Real alerts of a real controller, in a Prometheus whose minutes are seconds: they fire
// and clear. Then the queries of the dashboard have data.
func TestMonitoring(t *testing.T) {
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	m := &monitored{T: t, c: newClient(t, api.RESTConfig())}
	kube, err := kubernetes.NewForConfig(api.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	metricsPort := port(t)
	helm(t, api.Kubeconfig, "install", "fairlead", "charts/fairlead", "--namespace", namespace, "--create-namespace",
		"--set", "controller.healthPort="+port(t), "--set", "controller.metricsPort="+metricsPort,
		"--set", "cloudscale.enabled=true", "--set", "classes[0].name=,classes[1].name=cloud,classes[1].backend=cloudscale")
	guide := guideText(t)
	helm(t, api.Kubeconfig, guideCommand(t, guide, "metrics.service=true")...)
	awaitKinds(t, m.c)
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"}})

	provider := cloud.New(t)
	binary, args := tree.Binary(t, "fairlead"), asDeployed(t, api, m.c)
	startController := func() *process.Process {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "CLOUDSCALE_ACCESS_TOKEN="+cloud.Token, "CLOUDSCALE_API_URL="+provider.URL)
		return process.Start(t, cmd)
	}
	controller := startController()
	m.pod("fairlead-controller-0", "fairlead-metrics", "", metricsPort)

	askSigma, sigma := askCloudSigma(t)
	gossip := agentsim.NewGossip()
	startNode := func(i int, port uint16) *monitoredAgent {
		addr := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
		return startAgent(t, api.RESTConfig(), gossip, fmt.Sprintf("node-%d", i), addr, port, sigma)
	}
	var agents []*monitoredAgent
	var ports []uint16
	for i := range 3 {
		name := fmt.Sprintf("node-%d", i+1)
		provider.AddNode(t, kube, name)
		m.patchStatus(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, fmt.Sprintf(
			`{"addresses": [{"type": "InternalIP", "address": "10.1.0.%d"}], "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}`, i+1))
		port, err := sandbox.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
		agents = append(agents, startNode(i+1, port))
		m.pod("fairlead-agent-"+name, "fairlead-agent-metrics", name, fmt.Sprint(port))
	}

	m.pool("edge", "10.1.1.0/28", "eth0")
	m.prometheus = prometheus.Start(t, m.configuration(guide, api, tokenOf(t, m.c, "monitoring", "prometheus")))
	rig.Eventually(t, "Prometheus reads all", func() error {
		targets, err := m.prometheus.Targets(t.Context())
		healthy := slices.DeleteFunc(slices.Clone(targets), func(target prometheus.Target) bool { return target.Health != "up" })
		if err == nil && len(healthy) != 4 {
			err = fmt.Errorf("%+v", targets)
		}
		return err
	})
	for range 6 {
		m.service("", "edge")
	}
	m.quiet("in the beginning")

	small := m.pool("small", "10.1.2.0-10.1.2.4", "eth0")
	var last []*corev1.Service
	for range 6 {
		last = append(last, m.service("", small.Name))
	}
	m.fires("FairleadPoolNearlyFull", map[string]string{"pool": "small", "dialect": "native", "family": "IPv4"})
	m.fires("FairleadServiceWaiting", map[string]string{"reason": "PoolExhausted"})
	m.delete(last[0], last[1], last[2])
	m.clears("FairleadPoolNearlyFull")
	m.clears("FairleadServiceWaiting")

	silent := m.pool("silent", "10.1.3.0/28", "eth7")
	m.service("", silent.Name)
	m.fires("FairleadServiceUnannounced", map[string]string{"reason": "NotAnnounced"})
	m.pool("silent", "10.1.3.0/28", "eth0")
	m.clears("FairleadServiceUnannounced")

	end := provider.Fail(simulator.Fault{Method: "POST", Status: 403, Times: -1})
	m.service("cloud", "")
	m.fires("FairleadCloudRefused", map[string]string{"code": "403"})
	end()
	m.clears("FairleadCloudRefused")

	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rig.MetalLBNamespace}})
	tor := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
		"metadata": map[string]any{"namespace": rig.MetalLBNamespace, "name": "tor"},
		"spec":     map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "10.1.0.254"}}}
	anycast := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "anycast"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"10.1.4.0/28"}, Advertise: v1alpha1.Advertise{BGP: &v1alpha1.BGP{}}}}
	m.create(tor, anycast)
	m.service("", anycast.Name)
	rig.Eventually(t, "sessions are in Prometheus", func() error { return m.hasData(`sum(fairlead_bgp_announced_prefixes) == 3`) })
	agents[0].routers.Refuse("tor", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
	m.fires("FairleadBGPSessionDown", map[string]string{"node": "node-1", "peer": "tor"})
	for _, a := range agents[1:] {
		a.routers.Refuse("tor", bgp.Failure{Kind: bgp.Unreachable, Text: "connection refused"})
	}
	m.fires("FairleadBGPAddressUnheard", nil)
	for _, a := range agents {
		a.routers.Take("tor")
		a.routers.Withhold("tor", netip.MustParsePrefix("10.1.4.0/32"))
	}
	m.clears("FairleadBGPAddressUnheard")
	m.clears("FairleadBGPSessionDown")
	m.fires("FairleadBGPPrefixesWithheld", map[string]string{"peer": "tor"})
	for _, a := range agents {
		a.routers.Withhold("tor")
	}
	m.clears("FairleadBGPPrefixesWithheld")

	agents[2].dead.Store(true)
	gossip.Kill("node-3")
	m.fires("FairleadAgentMissing", map[string]string{"node": "node-3", "reason": "AgentLost"})
	agents[2].stop()
	startNode(3, ports[2])
	m.clears("FairleadAgentMissing")

	controller.Kill()
	m.fires("FairleadNoLeader", nil)
	startController()
	m.clears("FairleadNoLeader")

	m.service("", "edge")
	m.dashboardHasData(askSigma)
	m.quiet("in the end")
}

func guideText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(tree.Path("docs/guides/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// guideCommand returns the arguments of the guide's helm command that sets a value.
func guideCommand(t *testing.T, guide, value string) []string {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^    helm ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(guide, -1) {
		if words := strings.Fields(strings.ReplaceAll(match[1], "\\\n", "")); slices.Contains(words, value) {
			return words
		}
	}
	t.Fatalf("the guide has no helm command with %s", value)
	return nil
}

// configuration is the one of the guide, for a Prometheus outside of the cluster whose
// minutes are seconds. Debian builds Prometheus without the discovery of Kubernetes, so the
// test does that part.
func (m *monitored) configuration(guide string, api *sandbox.API, token string) string {
	m.Helper()
	dir := m.TempDir()
	raw, err := os.ReadFile(tree.Path("charts/fairlead/files/alerts.yaml"))
	if err != nil {
		m.Fatal(err)
	}
	faster := regexp.MustCompile(`\b(\d+)m\b`).ReplaceAllString(strings.ReplaceAll(string(raw), "> 300", "> 5"), "${1}s")
	rules, secret := filepath.Join(dir, "alerts.yaml"), filepath.Join(dir, "token")
	if err := errors.Join(os.WriteFile(rules, []byte(faster), 0o600), os.WriteFile(secret, []byte(token), 0o600)); err != nil {
		m.Fatal(err)
	}
	config := strings.ReplaceAll("\n"+regexp.MustCompile(`(?m)^    rule_files:.*\n(?:    .*\n)+`).FindString(guide), "\n    ", "\n")
	for old, replacement := range map[string]string{
		"/etc/prometheus/alerts.yaml":                         rules,
		"/var/run/secrets/kubernetes.io/serviceaccount/token": secret,
		"  kubernetes_sd_configs:\n  - role: endpointslice\n    namespaces:\n      names: [" + namespace + "]\n": "  static_configs: " + m.discover(api, token) + "\n",
	} {
		if !strings.Contains(config, old) {
			m.Fatalf("the guide's configuration does not have %s", old)
		}
		config = strings.ReplaceAll(config, old, replacement)
	}
	return "global: {scrape_interval: 2s, evaluation_interval: 1s}\n" + config
}

// discover finds the targets as Prometheus does with the role endpointslice, with the rights
// of its token. No pod runs, so they are on this machine.
func (m *monitored) discover(api *sandbox.API, token string) string {
	m.Helper()
	config := rest.AnonymousClientConfig(api.RESTConfig())
	config.BearerToken = token
	c, ctx := newClient(m.T, config), m.Context()
	var slices discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slices, client.InNamespace(namespace)); err != nil {
		m.Fatal(err)
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var found []group
	for _, slice := range slices.Items {
		var service corev1.Service
		var pod corev1.Pod
		if err := errors.Join(
			c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}, &service),
			c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: slice.Endpoints[0].TargetRef.Name}, &pod),
		); err != nil {
			m.Fatal(err)
		}
		found = append(found, group{[]string{fmt.Sprintf("127.0.0.1:%d", *slice.Ports[0].Port)}, map[string]string{
			"__meta_kubernetes_service_name": service.Name, "__meta_kubernetes_pod_name": pod.Name, "__meta_kubernetes_pod_node_name": pod.Spec.NodeName}})
	}
	out, err := json.Marshal(found)
	if err != nil {
		m.Fatal(err)
	}
	return string(out)
}

// pod makes what the kubelet and controllers of Kubernetes would: a pod, and an endpoint of
// a Service.
func (m *monitored) pod(name, service, node, port string) {
	m.Helper()
	var number int32
	if _, err := fmt.Sscan(port, &number); err != nil {
		m.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "fairlead", Image: "fairlead"}}}}
	m.create(pod, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("metrics"), Port: &number}},
	})
}

// pool makes or changes a pool.
func (m *monitored) pool(name, addresses, iface string) *v1alpha1.Pool {
	m.Helper()
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := client.IgnoreNotFound(m.c.Get(m.Context(), client.ObjectKey{Name: name}, pool))
	pool.Spec = v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{v1alpha1.Span(addresses)}, Advertise: v1alpha1.Advertise{Interfaces: []string{iface}}}
	switch {
	case err != nil:
	case pool.UID == "":
		err = m.c.Create(m.Context(), pool)
	default:
		err = m.c.Update(m.Context(), pool)
	}
	if err != nil {
		m.Fatal(err)
	}
	return pool
}

// service makes a Service with a pod that serves.
func (m *monitored) service(class, pool string) *corev1.Service {
	m.Helper()
	m.services++
	name := fmt.Sprintf("web-%d", m.services)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	if pool != "" {
		s.Annotations = map[string]string{native.AnnotationPool: pool}
	}
	m.create(s, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}})
	return s
}

func (m *monitored) create(all ...client.Object) {
	m.Helper()
	for _, o := range all {
		if err := m.c.Create(m.Context(), o); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *monitored) delete(all ...*corev1.Service) {
	m.Helper()
	for _, o := range all {
		if err := m.c.Delete(m.Context(), o); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *monitored) patchStatus(o client.Object, status string) {
	m.Helper()
	if err := m.c.Status().Patch(m.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"status": `+status+`}`))); err != nil {
		m.Fatal(err)
	}
}

// fires waits until an alert with these labels fires. It has no text that is left to fill in.
func (m *monitored) fires(name string, labels map[string]string) {
	m.Helper()
	rig.Eventually(m.T, name+" fires", func() error {
		all, err := m.prometheus.Alerts(m.Context())
		if err != nil {
			return err
		}
		for _, a := range all {
			matches := a.Labels["alertname"] == name && a.State == "firing"
			for key, value := range labels {
				matches = matches && a.Labels[key] == value
			}
			if matches {
				if text := fmt.Sprint(a.Annotations); strings.Contains(text, "{{") || strings.Contains(text, "<no value>") || strings.Contains(text, "()") {
					m.Errorf("%s says %s", name, text)
				}
				return nil
			}
		}
		return fmt.Errorf("alerts: %+v", all)
	})
}

// clears waits until an alert neither fires nor is pending.
func (m *monitored) clears(name string) {
	m.Helper()
	rig.Eventually(m.T, name+" clears", func() error {
		all, err := m.prometheus.Alerts(m.Context())
		if slices.ContainsFunc(all, func(a prometheus.Alert) bool { return a.Labels["alertname"] == name }) {
			return fmt.Errorf("alerts: %+v", all)
		}
		return err
	})
}

// quiet waits until there is no alert.
func (m *monitored) quiet(when string) {
	m.Helper()
	rig.Eventually(m.T, when+", there is no alert", func() error {
		all, err := m.prometheus.Alerts(m.Context())
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("alerts: %+v", all)
		}
		return err
	})
}

// dashboardHasData runs each query of the dashboard until it has a number.
func (m *monitored) dashboardHasData(meanwhile func()) {
	m.Helper()
	raw, err := os.ReadFile(tree.Path("charts/fairlead/files/dashboard.json"))
	if err != nil {
		m.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		m.Fatal(err)
	}
	variables := strings.NewReplacer("$cluster", ".*", "$__rate_interval", "30m")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			rig.Eventually(m.T, panel.Title, func() error {
				meanwhile()
				return m.hasData(variables.Replace(target.Expr))
			})
		}
	}
	if queries < 20 {
		m.Errorf("the dashboard has only %d queries", queries)
	}
}

func (m *monitored) hasData(expr string) error {
	samples, err := m.prometheus.Query(context.WithoutCancel(m.Context()), expr)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(samples, func(s prometheus.Sample) bool { return s.Value[1] != "NaN" }) {
		return fmt.Errorf("no data: %s: %v", expr, samples)
	}
	return nil
}
