package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// cloudscale is the simulated cloudscale.ch.
type cloudscale struct{}

func (cloudscale) Title() string { return "cloudscale.ch" }

// OnLink is false: the cloud's own host forwards for load balancers.
func (cloudscale) OnLink() bool { return false }

func (cloudscale) Argv(s simulator.Site) []string {
	argv := []string{"--forward", "--card=" + s.Card}
	for _, given := range []struct {
		flag     string
		prefixes []netip.Prefix
	}{{"--public=", s.Public}, {"--floating=", s.Floating}, {"--reserved=", s.Reserved}} {
		for _, p := range given.prefixes {
			argv = append(argv, given.flag+p.String())
		}
	}
	return argv
}

func (cloudscale) Seed(s simulator.Site) ([]byte, error) {
	type object = map[string]any
	network := newUUID()
	subnets, ids := []object{}, []string{}
	for _, subnet := range s.LAN {
		id := newUUID()
		ids = append(ids, id)
		subnets = append(subnets, object{"uuid": id, "network": network, "cidr": subnet.CIDR, "gateway_address": subnet.Gateway})
	}
	servers := []object{}
	for _, n := range s.Nodes {
		private, public := []object{}, []object{}
		for i, a := range n.Private {
			private = append(private, object{"address": a, "subnet": ids[i]})
		}
		for _, a := range n.Public {
			public = append(public, object{"address": a})
		}
		servers = append(servers, object{"name": n.Name, "zone": "lpg1", "interfaces": []object{{"addresses": public}, {"network": network, "addresses": private}}})
	}
	return json.MarshalIndent(object{
		"networks": []object{{"uuid": network, "name": s.Cluster, "zone": "lpg1"}}, "subnets": subnets, "servers": servers,
	}, "", "\t")
}

func (cloudscale) Authorize(r *http.Request, token string) {
	r.Header.Set("Authorization", "Bearer "+token)
}

func (cloudscale) Power(ctx context.Context, ask simulator.Ask, node string, on bool) error {
	answer, err := ask(ctx, http.MethodGet, "/v1/servers", "")
	if err != nil {
		return err
	}
	var servers []struct {
		Name string `json:"name"`
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(answer, &servers); err != nil {
		return fmt.Errorf("list the cloud's servers: %w", err)
	}
	action := map[bool]string{true: "start", false: "stop"}[on]
	for _, s := range servers {
		if s.Name != node {
			continue
		}
		if _, err := ask(ctx, http.MethodPost, "/v1/servers/"+s.UUID+"/"+action, ""); err != nil {
			return err
		}
	}
	return nil
}

func (cloudscale) LeftBehind(ctx context.Context, ask simulator.Ask) (what string, lines []string, err error) {
	what = "load balancers"
	answer, err := ask(ctx, http.MethodGet, "/v1/load-balancers", "")
	if err != nil {
		return what, nil, err
	}
	var left []struct {
		Name string `json:"name"`
		UUID string `json:"uuid"`
		VIPs []struct {
			Address string `json:"address"`
		} `json:"vip_addresses"`
	}
	if err := json.Unmarshal(answer, &left); err != nil {
		return what, nil, err
	}
	for _, lb := range left {
		var vips []string
		for _, v := range lb.VIPs {
			vips = append(vips, v.Address)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", lb.UUID, lb.Name, strings.Join(vips, " ")))
	}
	return what, lines, nil
}

func (cloudscale) Credentials(token string) (name string, data map[string]string) {
	return "cloudscale", map[string]string{"access-token": token}
}

// Values are those that deploy/cloudscale.yaml is made from, for this cloud.
func (cloudscale) Values(s simulator.Site) []string {
	return []string{
		"cloudscale.enabled=true", "cloudscale.names=true", "controller.kind=DaemonSet",
		"cloudscale.apiURL=http://" + s.API.String(),
	}
}

func (cloudscale) Hints(address, sandbox string) string {
	return fmt.Sprintf(`  kubectl get nodes --label-columns topology.kubernetes.io/zone,node.kubernetes.io/instance-type
  kubectl describe service web
  %[2]s exec client -- curl http://%[1]s
  kubectl logs --namespace kube-system --selector k8s-app=cloudscale-cloud-controller-manager

See what a change would cost, then make it:

  kubectl annotate service web fairlead.io/dry-run=true k8s.cloudscale.ch/loadbalancer-pool-protocol=proxy
  kubectl describe service web
  kubectl annotate service web fairlead.io/dry-run- k8s.cloudscale.ch/loadbalancer-pool-protocol-

Inspect the cloud, and stop a server:

  %[2]s cloud GET /v1/load-balancers
  %[2]s cloud GET /sandbox/log
  %[2]s kill node3 && kubectl describe node node3

docs/guides/cloudscale.md is the guide.`, address, sandbox)
}
