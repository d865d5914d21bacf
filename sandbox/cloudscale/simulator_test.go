package cloudscale_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"fairlead.io/test/kit/leak"

	"fairlead.io/sandbox/cloudscale"
)

func TestMain(m *testing.M) { leak.Main(m) }

// cloud is a simulator with a network and a node in it, and a client.
type cloud struct {
	*cloudscale.Simulator
	t       *testing.T
	network cloudscale.Network
	subnet  cloudscale.Subnet
	node    cloudscale.Server
}

func newCloud(t *testing.T, o cloudscale.Options) *cloud {
	s := cloudscale.New(o)
	t.Cleanup(s.Close)
	c := &cloud{Simulator: s, t: t}
	c.network = s.AddNetwork(cloudscale.Network{Name: "lan"})
	c.subnet = s.AddSubnet(cloudscale.Subnet{Network: c.network.UUID, CIDR: netip.MustParsePrefix("10.0.0.0/24")})
	c.node = s.AddNode("node1", "lpg1", c.subnet.UUID, netip.MustParseAddr("10.0.0.11"))
	return c
}

// quick has no time in which load balancers are changing.
var quick = cloudscale.Options{Creating: -1, Changing: -1}

// send returns the answer's status and what its body says.
func (c *cloud) send(method, path string, body any) (int, any) {
	c.t.Helper()
	status, _, raw := c.request(method, path, c.Token(), body)
	if len(raw) == 0 {
		return status, nil
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		c.t.Fatalf("%s %s: %q is no JSON", method, path, raw)
	}
	return status, decoded
}

func (c *cloud) request(method, path, token string, body any) (int, http.Header, []byte) {
	c.t.Helper()
	status, header, raw, err := do(c.Client(), c.newRequest(method, path, token, body))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, header, raw
}

// do sends a request and reads the whole answer.
func do(client *http.Client, r *http.Request) (int, http.Header, []byte, error) {
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, raw, err
}

func (c *cloud) newRequest(method, path, token string, body any) *http.Request {
	c.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://api.example/v1/"+path, reader)
	if strings.HasPrefix(path, "/") {
		r, err = http.NewRequestWithContext(c.t.Context(), method, "http://api.example"+path, reader)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

type object = map[string]any

// must sends a request that has to succeed, and returns the object in its answer.
func (c *cloud) must(method, path string, body any) object {
	c.t.Helper()
	status, answer := c.send(method, path, body)
	if status/100 != 2 {
		c.t.Fatalf("%s %s %v: %d %v", method, path, body, status, answer)
	}
	o, _ := answer.(object)
	return o
}

// list returns the objects of a list.
func (c *cloud) list(path string) []object {
	c.t.Helper()
	status, answer := c.send("GET", path, nil)
	raw, is := answer.([]any)
	if status != http.StatusOK || !is {
		c.t.Fatalf("GET %s: %d %v", path, status, answer)
	}
	all := []object{}
	for _, o := range raw {
		all = append(all, o.(object))
	}
	return all
}

// refused sends a request that has to fail so, with these words in a field.
func (c *cloud) refused(method, path string, body any, status int, field, words string) {
	c.t.Helper()
	got, answer := c.send(method, path, body)
	o, _ := answer.(object)
	text, isText := o[field].(string)
	if got != status || !isText || !strings.Contains(text, words) {
		c.t.Errorf("%s %s %v: %d %v; want %d and %q in %q", method, path, body, got, answer, status, words, field)
	}
	for key, value := range o {
		if _, is := value.(string); !is {
			c.t.Errorf("%s %s %v: error %q is no string: %v", method, path, body, key, value)
		}
	}
}

// id of an object.
func id(o object) string { return o["uuid"].(string) }

func (c *cloud) newLB() object {
	c.t.Helper()
	return c.must("POST", "load-balancers", object{"name": "web", "flavor": "lb-standard", "zone": "lpg1"})
}

func (c *cloud) newPool(lb object, protocol string) object {
	c.t.Helper()
	return c.must("POST", "load-balancers/pools", object{"name": protocol, "load_balancer": id(lb), "algorithm": "round_robin", "protocol": protocol})
}

func (c *cloud) newMember(pool object, address string) object {
	c.t.Helper()
	return c.must("POST", "load-balancers/pools/"+id(pool)+"/members",
		object{"name": address, "protocol_port": 30080, "address": address, "subnet": c.subnet.UUID})
}

func (c *cloud) newListener(pool object, protocol string, port int) object {
	c.t.Helper()
	return c.must("POST", "load-balancers/listeners", object{"name": protocol, "pool": id(pool), "protocol": protocol, "protocol_port": port})
}

func (c *cloud) newMonitor(pool object, kind string) object {
	c.t.Helper()
	return c.must("POST", "load-balancers/health-monitors", object{"pool": id(pool), "type": kind, "http": object{}})
}
