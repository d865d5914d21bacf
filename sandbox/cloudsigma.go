package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// cloudsigma is the simulated CloudSigma.
type cloudsigma struct{}

// subscribedAddresses is how many of each family the account has for Services.
const subscribedAddresses = 20

func (cloudsigma) Title() string { return "CloudSigma" }

// OnLink is true: servers announce addresses on the LAN by ARP, and the switch
// decides whose it believes.
func (cloudsigma) OnLink() bool { return true }

func (cloudsigma) Argv(s simulator.Site) []string {
	argv := []string{"--switch=" + s.Switch}
	for _, p := range s.Public {
		argv = append(argv, "--dynamic="+p.String())
	}
	for _, p := range s.Floating {
		argv = append(argv, "--subscribable="+p.String())
	}
	return argv
}

func (cloudsigma) Seed(s simulator.Site) ([]byte, error) {
	type object = map[string]any
	servers, subscribed := []object{}, []netip.Addr{}
	vlan := newUUID() // the LAN's own addresses are none of the cloud's
	for _, n := range s.Nodes {
		card := object{}
		for _, a := range n.Public {
			if a.Is4() {
				card["ip_v4"] = a
			} else {
				card["ip_v6"] = a
			}
		}
		servers = append(servers, object{"uuid": newUUID(), "name": n.Name, "nics": []object{card, {"vlan": vlan}}})
	}
	for _, p := range s.Floating {
		a := p.Masked().Addr()
		for range 10 {
			a = a.Next()
		}
		for range subscribedAddresses {
			subscribed = append(subscribed, a)
			a = a.Next()
		}
	}
	return json.MarshalIndent(object{"servers": servers, "subscribed": subscribed}, "", "\t")
}

func (cloudsigma) Authorize(r *http.Request, token string) {
	r.Header.Set("Authorization", "Bearer "+token)
}

// objects reads a whole list.
func (cloudsigma) objects(ctx context.Context, ask simulator.Ask, path string, into any) error {
	answer, err := ask(ctx, http.MethodGet, "/api/2.0/"+path+"?limit=0", "")
	if err != nil {
		return err
	}
	var list struct {
		Objects json.RawMessage `json:"objects"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("list the cloud's %s: %w", path, err)
	}
	if err := json.Unmarshal(list.Objects, into); err != nil {
		return fmt.Errorf("list the cloud's %s: %w", path, err)
	}
	return nil
}

func (c cloudsigma) Power(ctx context.Context, ask simulator.Ask, node string, on bool) error {
	var servers []struct {
		Name   string `json:"name"`
		UUID   string `json:"uuid"`
		Status string `json:"status"`
	}
	if err := c.objects(ctx, ask, "servers/detail/", &servers); err != nil {
		return err
	}
	action := map[bool]string{true: "start", false: "stop"}[on]
	for _, s := range servers {
		if s.Name != node || (s.Status == "stopped") != on {
			continue
		}
		if _, err := ask(ctx, http.MethodPost, "/api/2.0/servers/"+s.UUID+"/action/?do="+action, ""); err != nil {
			return err
		}
	}
	return nil
}

// LeftBehind are addresses that are attached to a server or have a tag: others
// would not take them.
func (c cloudsigma) LeftBehind(ctx context.Context, ask simulator.Ask) (what string, lines []string, err error) {
	what = "attached or tagged addresses"
	var servers []struct {
		Name string `json:"name"`
		NICs []struct {
			V4 *cloudsigmaConf `json:"ip_v4_conf"`
			V6 *cloudsigmaConf `json:"ip_v6_conf"`
		} `json:"nics"`
	}
	if err := c.objects(ctx, ask, "servers/detail/", &servers); err != nil {
		return what, nil, err
	}
	var tags []struct {
		Name      string `json:"name"`
		Resources []struct {
			UUID string `json:"uuid"`
			Type string `json:"res_type"`
		} `json:"resources"`
	}
	if err := c.objects(ctx, ask, "tags/", &tags); err != nil {
		return what, nil, err
	}
	found := map[string][]string{}
	for _, s := range servers {
		for _, n := range s.NICs {
			for _, conf := range []*cloudsigmaConf{n.V4, n.V6} {
				if conf != nil && conf.Conf == "static" {
					found[conf.IP.UUID] = append(found[conf.IP.UUID], "attached to "+s.Name)
				}
			}
		}
	}
	for _, t := range tags {
		for _, r := range t.Resources {
			if r.Type == "ips" {
				found[r.UUID] = append(found[r.UUID], t.Name)
			}
		}
	}
	for address, why := range found {
		lines = append(lines, address+" "+strings.Join(why, ", "))
	}
	slices.Sort(lines)
	return what, lines, nil
}

// cloudsigmaConf is how a card gets its address.
type cloudsigmaConf struct {
	Conf string `json:"conf"`
	IP   struct {
		UUID string `json:"uuid"`
	} `json:"ip"`
}

func (cloudsigma) Credentials(token string) (name string, data map[string]string) {
	return "cloudsigma-credentials", map[string]string{"username": "user@example.com", "password": token, "region": "zrh"}
}

// Values are those that deploy/cloudsigma.yaml is made from, for this cloud.
func (cloudsigma) Values(s simulator.Site) []string {
	return []string{
		"cloudsigma.enabled=true", "controller.kind=DaemonSet", "cloudsigma.apiEndpoint=http://" + s.API.String() + "/api/2.0",
	}
}

func (cloudsigma) Hints(address, sandbox string) string {
	return fmt.Sprintf(`  kubectl get nodes --label-columns topology.kubernetes.io/region,node.kubernetes.io/instance-type
  kubectl describe service web
  %[2]s exec client -- curl http://%[1]s
  kubectl logs --namespace kube-system daemonset/fairlead-controller | grep -E "Assigned|Recovered|Attached"

Inspect the cloud: the cards of its servers, the tags, and what the switch lets pass:

  %[2]s cloud GET '/api/2.0/servers/detail/?limit=0'
  %[2]s cloud GET '/api/2.0/tags/?limit=0'
  %[2]s cloud GET /sandbox/ports
  %[2]s cloud GET /sandbox/log
  %[2]s kill node3 && kubectl describe node node3

docs/guides/cloudsigma.md is the guide.`, address, sandbox)
}
