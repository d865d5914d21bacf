package kubeovn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubeovn"
	"fairlead.io/test/kit/northbound"
)

// network is one without an API server: tests say what the objects are.
func network(t *testing.T) (*Network, *northbound.Server) {
	s := northbound.Start(t)
	return &Network{ctl: func(_ context.Context, args ...string) (string, error) { return s.Ctl(args...), nil }}, s
}

// settle makes the database what a world says, and checks that nothing is left to do.
func settle(t *testing.T, n *Network, w world) {
	t.Helper()
	for range 2 { // a port may be made after the switch that it is in
		now, err := n.readRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.do(t.Context(), plan(w, now)); err != nil {
			t.Fatal(err)
		}
	}
	now, err := n.readRows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := plan(w, now); len(left) > 0 {
		t.Fatalf("it never ends: %q", left)
	}
}

// theProject is the world with the project of the documentation.
func theProject(t *testing.T) (w world) {
	t.Helper()
	w.chassis, w.lbs = []string{"node1", "node2", "node3"}, map[string]map[string]string{}
	for _, o := range Project() {
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		switch o.GetKind() {
		case "Vpc":
			var v vpc
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			w.vpcs = append(w.vpcs, v)
		case "Subnet":
			var s api.Subnet
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			w.subnets = append(w.subnets, s)
		case "OvnEip":
			var e api.OvnEip
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			e.Status = api.OvnEipStatus{V4IP: e.Spec.V4IP, MACAddress: e.Spec.MACAddress, Ready: true}
			w.eips = append(w.eips, e)
		}
	}
	for _, p := range protocols {
		w.lbs[balancer("shalb-dev", p)] = map[string]string{}
	}
	w.lbs["vpc-shalb-dev-tcp-load"] = map[string]string{"10.96.0.7:80": "10.1.0.40:31416", "[fd96::7]:80": ""}
	w.rules = []rule{{kind: snatRule, name: "shalb-dev", vpc: "shalb-dev", external: "168.119.17.51", internal: "10.1.0.0/16"}}
	return w
}

func TestProjectInTheDatabase(t *testing.T) {
	n, nb := network(t)
	settle(t, n, theProject(t))
	shown := nb.Ctl("show")
	for _, want := range []string{
		"(shalb-dev)", "(shalb-dev-default)", "(ext-public)", `mac: "ae:d6:b9:e1:76:78"`, `networks: ["168.119.17.51/28"]`, "port shalb-dev-ext-public", "port ext-public-shalb-dev",
		"port localnet.ext-public", `logical ip: "10.1.0.0/16"`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("there is no %s in\n%s", want, shown)
		}
	}
	if got := strings.Fields(nb.Ctl("lrp-get-gateway-chassis", "shalb-dev-ext-public")); len(got) != 6 || !strings.HasSuffix(got[0], "-node1") || got[1] != "100" {
		t.Errorf("gateways are %q, want three, node1 first", got)
	}
	if got := nb.Ctl("ls-lb-list", "shalb-dev-default"); !strings.Contains(got, "10.96.0.7:80") || !strings.Contains(got, "[fd96::7]:80") {
		t.Errorf("load balancers of the switch:\n%s", got)
	}
}

func TestWhatOthersWrite(t *testing.T) {
	n, nb := network(t)
	w := theProject(t)
	w.vpcs[0].Spec.PolicyRoutes = []policyRoute{{Priority: 30010, Match: "ip4.src == 10.1.0.40 && tcp.src == 31416", Action: "reroute", NextHopIP: "100.64.0.1"}}
	settle(t, n, w)
	nb.Ctl("--", "set", "Logical_Router", "shalb-dev", "options:lb_force_snat_ip=router_ip",
		"--", "lr-policy-add", "shalb-dev", "29000", "ip4.src == 10.1.0.9", "drop",
		"--", "lr-nat-add", "shalb-dev", "dnat_and_snat", "168.119.17.60", "10.1.0.40",
		"--", "lb-add", "shalb-dev-web-tcp", "168.119.17.55:80", "10.1.0.40:31416",
		"--", "lr-lb-add", "shalb-dev", "shalb-dev-web-tcp")
	settle(t, n, w)
	if got := nb.Ctl("get", "Logical_Router", "shalb-dev", "options"); strings.Contains(got, "lb_force_snat_ip") {
		t.Errorf("the router's options are not overwritten: %s", got)
	}
	if got := nb.Ctl("lr-policy-list", "shalb-dev"); !strings.Contains(got, "30010") || strings.Contains(got, "29000") {
		t.Errorf("the policies are not those of the Vpc:\n%s", got)
	}
	if got := nb.Ctl("lr-nat-list", "shalb-dev"); !strings.Contains(got, "168.119.17.60") {
		t.Errorf("another's NAT row is gone:\n%s", got)
	}
	if got := nb.Ctl("lr-lb-list", "shalb-dev"); !strings.Contains(got, "168.119.17.55:80") {
		t.Errorf("another's load balancer is gone while kube-ovn runs:\n%s", got)
	}
}

func TestGarbage(t *testing.T) {
	n, nb := network(t)
	w := theProject(t)
	w.rules = append(w.rules, rule{kind: dnatRule, name: "theirs", vpc: "shalb-dev"})
	settle(t, n, w)
	for i, name := range []string{"shalb-dev-web-tcp", "theirs", "vpc-shalb-dev-tcp-sess-load"} {
		nb.Ctl("lb-add", name, fmt.Sprintf("168.119.17.5%d:80", i+5), "10.1.0.40:31416")
	}
	nb.Ctl("set", "Load_Balancer", "shalb-dev-web-tcp", "external_ids:vendor=fairlead")
	nb.Ctl("pg-add", "foreign", "--", "pg-add", "kept", "--", "set", "Port_Group", "kept", "external_ids:np=fairlead")
	now, err := n.readRows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.do(t.Context(), garbage(w, now)); err != nil {
		t.Fatal(err)
	}
	left := strings.Fields(nb.Ctl("--bare", "--columns=name", "list", "Load_Balancer"))
	slices.Sort(left)
	want := []string{"theirs", "vpc-shalb-dev-sctp-load", "vpc-shalb-dev-tcp-load", "vpc-shalb-dev-tcp-sess-load", "vpc-shalb-dev-udp-load"}
	if !slices.Equal(left, want) {
		t.Errorf("a start leaves %q, want %q", left, want)
	}
	if got := strings.TrimSpace(nb.Ctl("--bare", "--columns=name", "list", "Port_Group")); got != "kept" {
		t.Errorf("a start leaves the port groups %q", got)
	}
}

func TestWhatIsGoneGoes(t *testing.T) {
	n, nb := network(t)
	w := theProject(t)
	settle(t, n, w)
	w.eips[0].DeletionTimestamp = &metav1.Time{}
	settle(t, n, w)
	if got := nb.Ctl("show"); strings.Contains(got, "ae:d6:b9:e1:76:78") || strings.Contains(got, "ext-public-shalb-dev") {
		t.Errorf("the gateway's OvnEip is gone, and its ports are not:\n%s", got)
	}
	settle(t, n, world{})
	if got := nb.Ctl("show") + nb.Ctl("lb-list"); strings.TrimSpace(got) != "" {
		t.Errorf("all objects are gone, and this is left:\n%s", got)
	}
}
