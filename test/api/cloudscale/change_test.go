package cloudscale

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/sandbox/cloudscale"
)

// each: there is one, and all of them have these words.
func each[T any](all []T, words ...string) error {
	for _, o := range all {
		data, err := json.Marshal(o)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(string(data), word) {
				return fmt.Errorf("%s is not in %s", word, data)
			}
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("there is none")
	}
	return nil
}

// The manual's table, held against a load balancer that runs: what a change
// costs is told before it is made, and then it is made.
func TestWhatChangesCost(t *testing.T) {
	listeners := func(words ...string) func(*world) error {
		return func(w *world) error { return each(w.Listeners(), words...) }
	}
	monitors := func(words ...string) func(*world) error {
		return func(w *world) error { return each(w.HealthMonitors(), words...) }
	}
	pools := func(words ...string) func(*world) error {
		return func(w *world) error {
			if err := w.has("tcp/443", "tcp/80")(); err != nil {
				return err
			}
			return each(w.Pools(), words...)
		}
	}
	for _, row := range []struct {
		set    string // annotation and value
		impact string
		check  func(*world) error
	}{
		// No impact.
		{"timeout-client-data-ms 1001", "none", listeners(`"timeout_client_data_ms":1001`)},
		{"timeout-member-connect-ms 1002", "none", listeners(`"timeout_member_connect_ms":1002`)},
		{"timeout-member-data-ms 1003", "none", listeners(`"timeout_member_data_ms":1003`)},
		{"name shop-web", "none", func(w *world) error { return each(w.LoadBalancers(), `"name":"shop-web"`) }},
		// Minimal impact.
		{`listener-allowed-cidrs ["198.51.100.0/24","203.0.113.7"]`, "new connections", listeners(`"allowed_cidrs":["198.51.100.0/24","203.0.113.7/32"]`)},
		{"health-monitor-delay-s 5", "new connections", monitors(`"delay_s":5`)},
		{"health-monitor-timeout-s 2", "new connections", monitors(`"timeout_s":2`)},
		{"health-monitor-up-threshold 4", "new connections", monitors(`"up_threshold":4`)},
		{"health-monitor-down-threshold 6", "new connections", monitors(`"down_threshold":6`)},
		{"health-monitor-type http", "new connections", monitors(`"type":"http"`, `"url_path":"/"`, `"version":"1.1"`)},
		// Considerable impact in the manual; seconds here.
		{"pool-algorithm least_connections", "seconds", pools(`"algorithm":"least_connections"`)},
		{"pool-protocol proxyv2", "seconds", pools(`"protocol":"proxyv2"`)},
	} {
		t.Run(row.set, func(t *testing.T) {
			w := newWorld(t)
			w.serve(web)
			w.ResetLog()
			key, value, _ := strings.Cut(row.set, " ")
			w.annotate("web", key, value, "fairlead.io/dry-run", "true")
			w.told("web", "ChangesPlanned", "; impact: "+row.impact+". Nothing was changed.")
			if done := w.writes(); len(done) > 0 {
				t.Errorf("a dry run did %v", done)
			}
			w.annotate("web", "fairlead.io/dry-run", "")
			w.eventually(row.set, func() error { return row.check(w) })
			w.told("web", "UpdatedLoadBalancer", "impact: "+row.impact)
			w.service("web", "is served", ensured)
			if n := len(w.LoadBalancers()); n != 1 {
				t.Errorf("%d load balancers", n)
			}
		})
	}
}

// The manual's four pairs of ports before and after, and ports that come and go:
// what it costs, and which pools stay what they were.
func TestWhatPortsCost(t *testing.T) {
	service := func(ports string) string {
		return "metadata: {name: web, annotations: {}}\nspec:\n  type: LoadBalancer\n  ports: [" + ports + "]\n"
	}
	for _, row := range []struct {
		name, before, after string
		impact              string // never worse than the manual's
		stays               string // pools that are not made anew
		listeners           []string
	}{
		{"80 to 8080, unnamed", "{port: 80, nodePort: 30080}", "{port: 8080, nodePort: 30080}", "new connections", "tcp", []string{"tcp/8080"}},
		{"80 to 8080, named", "{name: http, port: 80, nodePort: 30080}", "{name: http, port: 8080, nodePort: 30080}", "new connections", "tcp/http", []string{"tcp/8080"}},
		{"http to https", "{name: http, port: 80, nodePort: 30080}", "{name: https, port: 443, nodePort: 30080}", "new connections", "", []string{"tcp/443"}},
		{"unnamed to http", "{port: 80, nodePort: 30080}", "{name: http, port: 80, nodePort: 30080}", "none", "", []string{"tcp/80"}},
		{"a port more", "{name: a, port: 80, nodePort: 30080}", "{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30081}", "none", "tcp/a", []string{"tcp/80", "tcp/81"}},
		{"a port less", "{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30081}", "{name: a, port: 80, nodePort: 30080}", "new connections", "tcp/a", []string{"tcp/80"}},
		{"UDP beside TCP", "{name: a, port: 53, protocol: TCP, nodePort: 30053}", "{name: a, port: 53, protocol: TCP, nodePort: 30053}, {name: b, port: 53, protocol: UDP, nodePort: 30053}", "none", "tcp/a", []string{"tcp/53", "udp/53"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(service(row.before))
			before := fmt.Sprint(w.stateOf(row.stays))
			w.ResetLog()
			w.apply(strings.Replace(service(row.after), "annotations: {}", `annotations: {fairlead.io/dry-run: "true"}`, 1))
			w.told("web", "ChangesPlanned", "; impact: "+row.impact+". Nothing was changed.")
			if done := w.writes(); len(done) > 0 {
				t.Errorf("a dry run did %v", done)
			}
			w.apply(service(row.after))
			w.eventually("the ports are others", w.has(row.listeners...))
			w.service("web", "is served", ensured)
			if after := fmt.Sprint(w.stateOf(row.stays)); row.stays != "" && after != before {
				t.Errorf("pool %s was %s, is %s", row.stays, before, after)
			}
		})
	}
}

// stateOf a pool and its members.
func (w *world) stateOf(pool string) (out []string) {
	for _, p := range w.Pools() {
		if p.Name == pool {
			out = append(out, p.UUID)
			for _, m := range w.Members(p.UUID) {
				out = append(out, m.UUID, m.Name, fmt.Sprint(m.Enabled))
			}
		}
	}
	return out
}

// What cannot be changed is refused with a reason; the load balancer runs on as
// it is, other changes are made, and when the request is removed, the warning clears.
func TestRefusedChanges(t *testing.T) {
	for key, values := range map[string][2]string{
		"flavor":        {"lb-large", "flavor lb-standard cannot become lb-large"},
		"zone":          {"lpg1", "zone rma1 cannot become lpg1"},
		"vip-addresses": {`[{"subnet":"6f0e1c1a-0000-4000-8000-000000000000"}]`, "VIP addresses"},
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			was := w.serve(web)
			w.annotate("web", key, values[0], "timeout-client-data-ms", "1001")
			s := w.service("web", "says why not", says("ChangeRefused", values[1], "delete the Service and create it again"))
			w.told("web", "SyncLoadBalancerFailed", values[1])
			if err := publishes(published(was)...)(s); err != nil {
				t.Error(err)
			}
			w.eventually("other changes are made", func() error { return each(w.Listeners(), `"timeout_client_data_ms":1001`) })
			if o := w.LoadBalancers()[0]; o.Flavor != "lb-standard" || o.Zone != "rma1" || o.UUID != was.Annotations[prefix+"uuid"] {
				t.Errorf("%+v", o)
			}
			back := map[string]string{"zone": "rma1"}[key]
			w.annotate("web", key, back)
			w.service("web", "is well again", ensured)
		})
	}
}

// What is published: addresses by default for a proxy, or as ip-mode says; a
// host name instead of all; floating IPs in the place of their family.
func TestWhatIsPublished(t *testing.T) {
	w := newWorld(t)
	floating := w.AddFloatingIP(cloudscale.FloatingIP{Prefix: netip.MustParsePrefix("192.0.2.9/32"), Region: "rma"})
	s := w.serve(web)
	own := w.LoadBalancers()[0].VIPs
	mode := func(want corev1.LoadBalancerIPMode) func(*corev1.Service) error {
		return func(s *corev1.Service) error {
			for _, i := range s.Status.LoadBalancer.Ingress {
				if i.IPMode == nil || *i.IPMode != want {
					return fmt.Errorf("mode %v", i.IPMode)
				}
			}
			return publishes(own[0].Address.String(), own[1].Address.String())(s)
		}
	}
	if err := mode(corev1.LoadBalancerIPModeProxy)(s); err != nil {
		t.Error(err)
	}
	w.annotate("web", "ip-mode", "VIP")
	w.service("web", "publishes with another mode", mode(corev1.LoadBalancerIPModeVIP))
	w.annotate("web", "ip-mode", "Sideways")
	w.service("web", "says what is wrong", says("InvalidRequest", `"Sideways" is not one of Proxy, VIP`))
	w.annotate("web", "ip-mode", "", "force-hostname", "web.example.com")
	w.service("web", "publishes a name", publishes("web.example.com"))
	w.annotate("web", "force-hostname", "", "floating-ips", fmt.Sprintf(`["%s"]`, floating.Prefix))
	w.service("web", "publishes the floating IP", publishes(floating.Prefix.Addr().String(), own[1].Address.String()))
	if err := each(w.FloatingIPs(), w.LoadBalancers()[0].UUID); err != nil {
		t.Error(err)
	}
}

// Two Services that want one floating IP both do without, and say so; when one
// gives up, the other gets it.
func TestContestedFloatingIP(t *testing.T) {
	w := newWorld(t)
	f := w.AddFloatingIP(cloudscale.FloatingIP{Prefix: netip.MustParsePrefix("192.0.2.9/32"), Region: "rma"})
	w.start()
	for _, name := range []string{"web", "shop"} {
		w.apply(strings.Replace(web, "{name: web}", fmt.Sprintf(`{name: %s, annotations: {%sfloating-ips: '["%s"]'}}`, name, prefix, f.Prefix), 1))
	}
	// Whoever came first may have had it for a moment.
	w.service("web", "is refused", says("FloatingAddressRefused", f.Prefix.String(), "default/shop"))
	w.service("shop", "is refused", says("FloatingAddressRefused", f.Prefix.String(), "default/web"))
	w.annotate("shop", "floating-ips", "not even JSON")
	w.service("web", "has it", ensured)
	w.delete("shop") // whatever it says
	w.eventually("one is left", func() error {
		if n := len(w.LoadBalancers()); n != 1 {
			return fmt.Errorf("%d load balancers", n)
		}
		return each(w.FloatingIPs(), w.LoadBalancers()[0].UUID)
	})
}

// Policy Local, a private address, source ranges and PROXY, as users write them.
func TestNewServices(t *testing.T) {
	w := newWorld(t)
	w.start()
	for _, test := range []struct {
		text  string
		check func(*corev1.Service) error
	}{
		{"metadata: {name: a}\nspec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}", func(s *corev1.Service) error {
			if err := each(w.HealthMonitors(), `"type":"http"`, `"url_path":"/livez"`, `"version":"1.0"`); err != nil {
				return err
			}
			return each(w.Members(""), fmt.Sprintf(`"monitor_port":%d`, s.Spec.HealthCheckNodePort), fmt.Sprintf(`"protocol_port":%d`, s.Spec.Ports[0].NodePort))
		}},
		{fmt.Sprintf(`metadata: {name: b, annotations: {%svip-addresses: '[{"subnet":"%s","address":"10.1.0.99"}]'}}`, prefix, w.Subnet) + "\nspec: {type: LoadBalancer, ports: [{port: 80}]}", publishes("10.1.0.99")},
		{"metadata: {name: c}\nspec: {type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.0/24], ports: [{port: 80}]}", func(*corev1.Service) error {
			return each(w.Listeners(), `"allowed_cidrs":["192.0.2.0/24"]`)
		}},
		{fmt.Sprintf("metadata: {name: d, annotations: {%spool-protocol: proxy}}", prefix) + "\nspec: {type: LoadBalancer, ports: [{name: tcp, port: 80}, {name: udp, port: 80, protocol: UDP}]}", func(*corev1.Service) error {
			for _, p := range w.Pools() {
				if want := map[string]string{"tcp/tcp": "proxy", "udp/udp": "udp"}[p.Name]; p.Protocol != want {
					return fmt.Errorf("pool %s speaks %s", p.Name, p.Protocol)
				}
			}
			return w.has("tcp/80", "udp/80")()
		}},
		{"metadata: {name: e}\nspec: {type: LoadBalancer, sessionAffinity: ClientIP, ports: [{port: 80}]}", func(*corev1.Service) error {
			return each(w.Pools(), `"algorithm":"source_ip"`)
		}},
	} {
		s := w.service(w.apply(test.text).Name, "is served", ensured)
		if err := test.check(s); err != nil {
			t.Errorf("%s: %v", test.text, err)
		}
		w.delete(s.Name)
		w.eventually("all gone", w.gone(s.Name))
	}
}

// Nodes by their labels; one that the cloud does not know stops nobody; without
// any, the Service says so and keeps what it has.
func TestNodes(t *testing.T) {
	w := newWorld(t)
	w.addNode("node-4", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///zone/i-1" })
	w.serve(strings.Replace(web, "{name: web}", fmt.Sprintf("{name: web, annotations: {%snode-selector: tier=edge, %szone: rma1}}", prefix, prefix), 1))
	w.told("web", "NoValidNodes", "tier=edge")
	for _, name := range []string{"node-1", "node-2", "node-4"} {
		w.patchNode(name, `{"metadata":{"labels":{"tier":"edge"}}}`)
	}
	w.eventually("two members", w.members(2))
	w.told("web", "NodesSkipped", "node-4")
	w.patchNode("node-1", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	w.eventually("one gets no new connections", func() error {
		off := 0
		for _, m := range w.Members("") {
			if !m.Enabled && m.Address.String() == "10.1.0.1" {
				off++
			}
		}
		if off != 2 {
			return fmt.Errorf("%d are disabled", off)
		}
		return nil
	})
	w.annotate("web", "node-selector", "invalid===syntax")
	w.service("web", "says what is wrong", says("InvalidRequest", "unable to parse selector"))
	w.delete("web")
	w.eventually("all gone", w.gone("web"))
}
