package cloudsigma_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/sandbox/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cloud is a simulator with a server, two addresses, and a client.
type cloud struct {
	*cloudsigma.Simulator
	t    *testing.T
	node cloudsigma.Server
}

var (
	first  = netip.MustParseAddr("192.0.2.7")
	second = netip.MustParseAddr("192.0.2.8")
)

func newCloud(t *testing.T, k cloudsigma.Knobs) *cloud {
	t.Helper()
	s := cloudsigma.New(cloudsigma.Options{Knobs: k})
	t.Cleanup(s.Close)
	c := &cloud{Simulator: s, t: t}
	c.node = c.server("node1", cloudsigma.NewNIC{Mode: "dhcp", Addr4: "*"})
	s.Subscribe(first)
	s.Subscribe(second)
	return c
}

func (c *cloud) server(name string, cards ...cloudsigma.NewNIC) cloudsigma.Server {
	c.t.Helper()
	server, err := c.AddServer(cloudsigma.NewServer{Name: name, NICs: cards})
	if err != nil {
		c.t.Fatal(err)
	}
	return server
}

type object = map[string]any

// send returns the answer's status and body.
func (c *cloud) send(method, path string, body any) (int, string) {
	c.t.Helper()
	return c.sendTo("zrh.cloudsigma.com", method, path, "Bearer "+c.Token(), body)
}

func (c *cloud) sendTo(host, method, path, authorization string, body any) (int, string) {
	c.t.Helper()
	var text string
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		text = string(raw)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/api/2.0/" + path
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, "https://"+host+path, strings.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := c.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if response.Header.Get("X-Request-Id") == "" {
		c.t.Errorf("%s %s: no request ID", method, path)
	}
	return response.StatusCode, string(raw)
}

// want sends a request and checks the status.
func (c *cloud) want(status int, method, path string, body any) object {
	c.t.Helper()
	got, text := c.send(method, path, body)
	if got != status {
		c.t.Fatalf("%s %s %v: %d %s, want %d", method, path, body, got, text, status)
	}
	var o object
	_ = json.Unmarshal([]byte(text), &o)
	return o
}

// get is a server as a client reads it, without what it must not send back.
func (c *cloud) get(id string) object {
	c.t.Helper()
	o := c.want(200, "GET", "servers/"+id+"/", nil)
	for _, name := range []string{"resource_uri", "runtime", "status", "uuid", "owner", "permissions", "mounted_on", "grantees"} {
		delete(o, name)
	}
	return o
}

func static(addr netip.Addr) object {
	return object{"ip_v4_conf": object{"conf": "static", "ip": object{"uuid": addr.String()}}}
}

// attach adds a card as the document does.
func (c *cloud) attach(id string, addr netip.Addr) (int, string) {
	c.t.Helper()
	o := c.get(id)
	o["nics"] = append(o["nics"].([]any), static(addr))
	return c.send("PUT", "servers/"+id+"/", o)
}

func TestLists(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	for i := range 30 {
		c.AddTag(fmt.Sprint("tag", i), first.String())
	}
	count := func(path string) (int, float64) {
		o := c.want(200, "GET", path, nil)
		return len(o["objects"].([]any)), o["meta"].(object)["total_count"].(float64)
	}
	for path, want := range map[string]int{"tags/": 20, "tags/?limit=0": 30, "tags/?limit=7": 7, "tags/?limit=0&offset=25": 5, "tags/?offset=99": 0} {
		if n, total := count(path); n != want || total != 30 {
			t.Errorf("%s: %d of %v, want %d of 30", path, n, total, want)
		}
	}
	c.Turn(func(k *cloudsigma.Knobs) { k.MaxPage = 9 })
	if n, total := count("tags/?limit=0"); n != 9 || total != 30 {
		t.Errorf("%d of %v", n, total)
	}
	for path, want := range map[string]int{
		"servers/detail/?name=node1": 1, "servers/?name=node2": 0, "servers/?name__contains=ode": 1, "ips/detail/?uuid=192.0.2.7,192.0.2.8": 2, "ips/": 3,
		"subscriptions/?status=active&subscribed_object=192.0.2.7": 1, "subscriptions/?status=expired": 0, "vlans/detail/": 0, "locations/": 3,
	} {
		if n, _ := count(path); n != want {
			t.Errorf("%s: %d, want %d", path, n, want)
		}
	}
	if status, body := c.send("GET", "servers", nil); status != 404 || !strings.Contains(body, "<html>") {
		t.Errorf("a path without a slash: %d %s", status, body)
	}
}

func TestCards(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	if status, body := c.attach(c.node.UUID, first); status != 200 {
		t.Fatal(status, body)
	}
	now, _ := c.Server(c.node.UUID)
	if diff := cmp.Diff([]netip.Addr{first}, now.Statics(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || now.NICs[0].MAC != c.node.NICs[0].MAC {
		t.Error(diff, now.NICs)
	}
	if now.NICs[1].Plugged {
		t.Error("the guest has a card that was added while it runs")
	}
	ip := c.want(200, "GET", "ips/192.0.2.7/", nil)
	if ip["server"].(object)["uuid"] != c.node.UUID {
		t.Error(ip)
	}
	if err := c.Reboot(c.node.UUID); err != nil {
		t.Fatal(err)
	}
	if now, _ = c.Server(c.node.UUID); !now.NICs[1].Plugged {
		t.Error("the guest lacks the card after a reboot")
	}
	other := c.server("node2", cloudsigma.NewNIC{Mode: "manual", Addr4: "*"})
	for name, change := range map[string]func(object){
		"attached elsewhere": func(o object) { o["nics"] = append(o["nics"].([]any), static(first)) },
		"not subscribed":     func(o object) { o["nics"] = append(o["nics"].([]any), static(netip.MustParseAddr("198.51.100.1"))) },
		"twice":              func(o object) { o["nics"] = append(o["nics"].([]any), static(second), static(second)) },
		"static without IP":  func(o object) { o["nics"] = []any{object{"ip_v4_conf": object{"conf": "static"}}} },
		"dhcp with IP":       func(o object) { o["nics"] = []any{object{"ip_v4_conf": object{"conf": "dhcp", "ip": "192.0.2.8"}}} },
		"unknown mode":       func(o object) { o["nics"] = []any{object{"ip_v4_conf": object{"conf": "auto"}}} },
		"unknown MAC": func(o object) {
			o["nics"] = []any{object{"mac": "22:00:00:00:00:01", "ip_v4_conf": object{"conf": "dhcp"}}}
		},
		"nothing":         func(o object) { o["nics"] = []any{object{}} },
		"VLAN and IP":     func(o object) { o["nics"] = []any{object{"vlan": "x", "ip_v4_conf": object{"conf": "dhcp"}}} },
		"wrong family":    func(o object) { o["nics"] = []any{object{"ip_v6_conf": object{"conf": "static", "ip": "192.0.2.8"}}} },
		"no VNC password": func(o object) { delete(o, "vnc_password") },
		"no name":         func(o object) { o["name"] = nil },
	} {
		o := c.get(other.UUID)
		change(o)
		if status, body := c.send("PUT", "servers/"+other.UUID+"/", o); status != 400 || !strings.HasPrefix(body, `[{"error_`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	// A card that is not sent is gone.
	o := c.get(c.node.UUID)
	o["nics"] = o["nics"].([]any)[:1]
	c.want(200, "PUT", "servers/"+c.node.UUID+"/", o)
	if now, _ = c.Server(c.node.UUID); len(now.Statics()) != 0 {
		t.Error(now.NICs)
	}
}

func TestKnobs(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{Running: "ignore"})
	if status, body := c.attach(c.node.UUID, first); status != 200 {
		t.Fatal(status, body)
	}
	if now, _ := c.Server(c.node.UUID); len(now.NICs) != 1 {
		t.Error("a change of a running server was made")
	}
	c.Turn(func(k *cloudsigma.Knobs) { k.Running = "reject" })
	if status, _ := c.attach(c.node.UUID, first); status != 400 {
		t.Error(status)
	}
	c.Turn(func(k *cloudsigma.Knobs) { k.Running, k.Unowned = "", "accept" })
	unowned := netip.MustParseAddr("198.51.100.1")
	if status, body := c.attach(c.node.UUID, unowned); status != 200 {
		t.Error(status, body)
	}
	for form, want := range map[string][2]int{"both": {201, 201}, "strings": {201, 400}, "objects": {400, 201}} {
		c.Turn(func(k *cloudsigma.Knobs) { k.TagForm = form })
		for i, resources := range []any{[]string{first.String()}, []object{{"uuid": first.String()}}} {
			if status, body := c.send("POST", "tags/", object{"objects": []object{{"name": "x", "resources": resources}}}); status != want[i] {
				t.Errorf("%s: %d %s", form, status, body)
			}
		}
	}
	for form, want := range map[string]string{"array": `[{"error`, "object": `{"error`, "html": "<html>"} {
		c.Turn(func(k *cloudsigma.Knobs) { k.ErrorForm = form })
		if status, body := c.send("GET", "servers/x/", nil); status != 404 || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %d %s", form, status, body)
		}
	}
	if status, _ := c.send("PATCH", "/sandbox/knobs", object{"running": "explode"}); status != 400 {
		t.Error(status)
	}
	if status, body := c.send("PATCH", "/sandbox/knobs", object{"firewall_delay": "30s"}); status != 204 {
		t.Error(status, body)
	}
}

// Somebody else has nothing to do with the user's objects, and an impersonated
// token is the service account's on the plain host.
func TestWhoAsks(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	c.AddUser("other@example.com", "secret")
	other := "Basic b3RoZXJAZXhhbXBsZS5jb206c2VjcmV0"
	if status, body := c.sendTo("zrh.cloudsigma.com", "GET", "servers/"+c.node.UUID+"/", other, nil); status != 403 || !strings.Contains(body, "does not have all of the permissions [LIST]") {
		t.Error(status, body)
	}
	for _, wrong := range []string{"", "Basic eDp5", "Bearer x", "Digest x"} {
		if status, _ := c.sendTo("zrh.cloudsigma.com", "GET", "servers/", wrong, nil); status != 401 {
			t.Errorf("%q: %d", wrong, status)
		}
	}
	token := func(body string) string {
		t.Helper()
		var got struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Token == "" {
			t.Fatal(body)
		}
		return got.Token
	}
	const path = "/auth/realms/cloudsigma/protocol/openid-connect/token"
	_, account := c.sendTo("oauth", "POST", path, "", "grant_type=client_credentials&client_id=fairlead&client_secret="+c.Token())
	_, ticket := c.sendTo("oauth", "POST", path, "Bearer "+token(account), "grant_type=urn:ietf:params:oauth:grant-type:uma-ticket&audience=service_provider_api")
	ask := object{"user_email": "user@example.com", "subject_token": token(account)}
	if status, _ := c.sendTo("zrh.cloudsigma.com", "POST", "/service_provider/api/v1/user/impersonate", "Bearer "+token(ticket), ask); status != 404 {
		t.Error(status)
	}
	status, user := c.sendTo("direct.zrh.cloudsigma.com", "POST", "/service_provider/api/v1/user/impersonate", "Bearer "+token(ticket), ask)
	if status != 200 {
		t.Fatal(status, user)
	}
	for host, want := range map[string]int{"direct.zrh.cloudsigma.com": 200, "127.0.0.1:81": 200, "zrh.cloudsigma.com": 403} {
		if status, _ := c.sendTo(host, "GET", "servers/"+c.node.UUID+"/", "Bearer "+token(user), nil); status != want {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
	if status, body := c.sendTo("direct.zrh.cloudsigma.com", "GET", "profile/", "Bearer "+token(user), nil); status != 200 || !strings.Contains(body, `"user@example.com"`) {
		t.Error(status, body)
	}
	c.EndSessions()
	if status, _ := c.sendTo("direct.zrh.cloudsigma.com", "GET", "servers/", "Bearer "+token(user), nil); status != 401 {
		t.Error(status)
	}
}

func TestFirewall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloudsigma.Knobs{FirewallDelay: simulator.Duration(30 * time.Second)})
		byHand := c.server("node2", cloudsigma.NewNIC{Mode: "manual", Addr4: "*"})
		own := netip.MustParseAddr("203.0.113.2")
		passes := func(id string, addr netip.Addr, want bool) {
			t.Helper()
			if got := c.Passes(id, addr); got != want {
				t.Errorf("%s at %s: %v", addr, id, got)
			}
		}
		passes(c.node.UUID, own, true)
		passes(c.node.UUID, first, false)
		passes(byHand.UUID, first, true)
		passes(byHand.UUID, own, false)
		if status, body := c.attach(c.node.UUID, first); status != 200 {
			t.Fatal(status, body)
		}
		passes(c.node.UUID, first, false) // not yet
		if _, _, again := c.Ports(); !again.Equal(time.Now().Add(30 * time.Second)) {
			t.Error(again)
		}
		<-time.After(30 * time.Second)
		passes(c.node.UUID, first, true)
		if err := c.EndSubscription(first); err != nil {
			t.Fatal(err)
		}
		passes(c.node.UUID, first, true) // it goes on where it is attached
		passes(byHand.UUID, first, false)
		passes(byHand.UUID, second, true)
		c.SetRouted(second, false)
		passes(byHand.UUID, second, false)
		if err := c.SetStatus(c.node.UUID, "stopped"); err != nil {
			t.Fatal(err)
		}
		passes(c.node.UUID, first, false)
		ports, about, _ := c.Ports()
		if len(ports) != 2 || slices.Contains(about, own) {
			t.Errorf("%v %v: the address that DHCP gave is back", ports, about)
		}
	})
}

// A card that is no longer dhcp gives its address back, though the guest may go on
// using it.
func TestModeChanged(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	o := c.get(c.node.UUID)
	card := o["nics"].([]any)[0].(object)
	card["ip_v4_conf"] = object{"conf": "manual"}
	c.want(200, "PUT", "servers/"+c.node.UUID+"/", o)
	if status, _ := c.send("GET", "ips/203.0.113.2/", nil); status != 404 {
		t.Error(status)
	}
}

func TestInterference(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	tag := c.AddTag("cluster:a", first.String())
	if status, body := c.send("POST", "/sandbox/interfere", object{"id": tag.UUID, "add": []string{second.String()}}); status != 204 {
		t.Fatal(status, body)
	}
	c.want(200, "PUT", "tags/"+tag.UUID+"/", object{"name": "cluster:a", "resources": []object{}})
	if got := c.Tagged("cluster:a"); len(got) != 0 {
		t.Error("what another has added just before was not lost:", got)
	}
	defer c.Fail(cloudsigma.Fault{Status: 502, Body: "<html>Bad Gateway</html>"})()
	if status, body := c.send("GET", "tags/", nil); status != 502 || body != "<html>Bad Gateway</html>" {
		t.Error(status, body)
	}
}

// Buying an address, tagging it, listing by tag, and the rest of the life of a server.
func TestRest(t *testing.T) {
	c := newCloud(t, cloudsigma.Knobs{})
	bought := c.want(201, "POST", "subscriptions/", object{"objects": []object{{"resource": "ip", "amount": 1, "period": "1 month"}}})
	addr := bought["objects"].([]any)[0].(object)["subscribed_object"].(string)
	tag := c.want(201, "POST", "tags/", object{"name": "service:web", "resources": []string{addr, c.node.UUID}})["objects"].([]any)[0].(object)["uuid"].(string)
	for path, want := range map[string]string{"ips": addr, "servers": c.node.UUID} {
		all := c.want(200, "GET", "tags/"+tag+"/"+path+"/", nil)["objects"].([]any)
		if len(all) != 1 || all[0].(object)["uuid"] != want {
			t.Errorf("%s: %v", path, all)
		}
	}
	c.want(400, "POST", "tags/", object{"name": "x", "resources": []string{"198.51.100.1"}})
	c.want(200, "PUT", "ips/"+addr+"/", object{"meta": object{"cluster": "a"}})
	c.want(400, "PUT", "ips/"+addr+"/", object{"meta": object{strings.Repeat("k", 33): "a"}})
	c.want(204, "DELETE", "tags/"+tag+"/", nil)
	made := c.want(201, "POST", "servers/", object{"name": "new", "cpu": 1000, "mem": 1 << 30, "vnc_password": "x", "nics": []object{{"ip_v4_conf": object{"conf": "dhcp"}}}})
	id := made["objects"].([]any)[0].(object)["uuid"].(string)
	c.want(202, "POST", "servers/"+id+"/action/?do=start", nil)
	c.want(400, "POST", "servers/"+id+"/action/?do=start", nil)
	c.want(400, "DELETE", "servers/"+id+"/", nil)
	c.want(202, "POST", "servers/"+id+"/action/?do=stop", nil)
	c.want(204, "DELETE", "servers/"+id+"/", nil)
	c.want(404, "GET", "servers/"+id+"/", nil)
	c.want(405, "DELETE", "ips/"+addr+"/", nil)
}
