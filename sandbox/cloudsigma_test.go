package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	sim "fairlead.io/sandbox/cloudsigma"
	"fairlead.io/sandbox/simulator"
)

// A seed has a server for each node, which can be stopped and started; what is
// attached or tagged is left behind.
func TestCloudSigma(t *testing.T) {
	c := cloudsigma{}
	site := simulator.Site{
		Public: cloudPublic, Floating: cloudFloating, Switch: "x-switch",
		Nodes: []simulator.Node{{Name: "node1", Public: []netip.Addr{netip.MustParseAddr("203.0.113.11"), netip.MustParseAddr("2001:db8:1::11")}}},
	}
	s := sim.New(sim.Options{Dynamic: site.Public, Subscribable: site.Floating})
	defer s.Close()
	seed, err := c.Seed(site)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Seed(seed); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, method, path, body string) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		c.Authorize(r, s.Token())
		response, err := s.Client().Do(r)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode > 299 {
			err = fmt.Errorf("%d %s", response.StatusCode, answer)
		}
		return answer, err
	}
	left := func() string {
		t.Helper()
		_, lines, err := c.LeftBehind(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "; ")
	}
	if got := left(); got != "" {
		t.Error(got)
	}
	server := s.Servers()[0]
	if server.Name != "node1" || len(s.IPs()) != 2*subscribedAddresses+2 || !s.Passes(server.UUID, netip.MustParseAddr("203.0.113.11")) {
		t.Errorf("%+v %v", server, s.IPs())
	}
	s.AddTag("cluster:a", "192.0.2.11", "192.0.2.10", server.UUID)
	answer, err := ask(t.Context(), http.MethodGet, "/api/2.0/servers/"+server.UUID+"/", "")
	if err != nil {
		t.Fatal(err)
	}
	var definition map[string]any
	if err := json.Unmarshal(answer, &definition); err != nil {
		t.Fatal(err)
	}
	definition["nics"] = append(definition["nics"].([]any), map[string]any{"ip_v4_conf": map[string]any{"conf": "static", "ip": "192.0.2.10"}})
	body, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), http.MethodPut, "/api/2.0/servers/"+server.UUID+"/", string(body)); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "192.0.2.10 attached to node1, cluster:a; 192.0.2.11 cluster:a" {
		t.Error(got)
	}
	for _, on := range []bool{false, false, true, true} { // twice does no harm
		if err := c.Power(t.Context(), ask, "node1", on); err != nil {
			t.Fatal(err)
		}
		if now, _ := s.Server(server.UUID); (now.Status == "running") != on {
			t.Errorf("%s, want %v", now.Status, on)
		}
	}
	if !slices.Contains(c.Argv(site), "--switch=x-switch") {
		t.Error(c.Argv(site))
	}
}
