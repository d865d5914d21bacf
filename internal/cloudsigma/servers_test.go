package cloudsigma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudsigma"
)

func attach(a netip.Addr) func(*Server) error {
	return func(s *Server) error { s.Attach(a); return nil }
}

func detach(a netip.Addr) func(*Server) error {
	return func(s *Server) error { s.Detach(a); return nil }
}

// compareAddrs is for cmp.
var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// A PUT has everything that was there but the eight fields, and new cards last.
func TestAttachKeepsTheRest(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	id := node(t, s, "node1", "dhcp")
	before, _ := s.Server(id)
	for range 2 { // the second time there is nothing to do, as the last answer shows
		now, err := c.Servers.Change(t.Context(), id, attach(addr1))
		if err != nil || !now.Attached(addr1) || now.Status != Running {
			t.Fatalf("%+v, %v", now, err)
		}
	}
	after, _ := s.Server(id)
	if diff := cmp.Diff([]netip.Addr{addr1}, after.Statics(), compareAddrs); diff != "" {
		t.Error(diff)
	}
	if after.NICs[0].MAC != before.NICs[0].MAC || after.NICs[0].V4 != before.NICs[0].V4 || len(after.NICs) != 2 {
		t.Errorf("cards %+v, then %+v", before.NICs, after.NICs)
	}
	for _, field := range []string{"vnc_password", "is_grey", "allocation_pool", "drives", "cpus_instead_of_cores", "mem", "epcs"} {
		if after.Field(field) != before.Field(field) || after.Field(field) == "" {
			t.Errorf("%s was %s, is %s", field, before.Field(field), after.Field(field))
		}
	}
	var sent []sim.Call
	for _, r := range s.Log() {
		sent = append(sent, sim.Call{Method: r.Method, Kind: r.Kind})
		if r.Method != http.MethodPut {
			continue
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"resource_uri", "runtime", "status", "uuid", "owner", "permissions", "mounted_on", "grantees"} {
			if _, has := body[field]; has {
				t.Errorf("%s was sent", field)
			}
		}
	}
	if want := []sim.Call{{Method: "GET", Kind: "servers"}, {Method: "PUT", Kind: "servers"}, {Method: "GET", Kind: "servers"}}; !slices.Equal(sent, want) {
		t.Errorf("calls %v", sent)
	}
	now, err := c.Servers.Change(t.Context(), id, detach(addr1))
	if err != nil || now.Attached(addr1) || len(now.NICs) != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	if cached := c.Servers.Peek(); len(cached) != 1 || cached[0].Attached(addr1) {
		t.Errorf("cached %+v", cached)
	}
}

func TestServer(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	made, err := s.AddServer(sim.NewServer{Name: "node1", NICs: []sim.NewNIC{{VLAN: "v"}, {Mode: "manual", Addr4: "*"}, {Mode: "dhcp", Addr4: "*", Addr6: "*"}, {Mode: "static", Addr4: "192.0.2.9"}}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := c.Servers.Get(t.Context(), made.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if server.Name != "node1" || server.CPU != 2000 || server.Mem != 2<<30 || server.SMP != 1 || len(server.NICs) != 4 || server.Owner == "" {
		t.Errorf("%+v", server)
	}
	public := server.PublicNIC()
	if public != &server.NICs[1] || !public.Manual(addr1) || public.Manual(netip.MustParseAddr("2001:db8::1")) || server.NICs[0].VLAN != "v" || server.NICs[0].Manual(addr1) {
		t.Errorf("%+v", server.NICs)
	}
	if n := server.NICs[2]; n.V4.Conf != DHCP || n.V6.Conf != DHCP || len(n.Runtime) != 2 || n.Manual(addr1) {
		t.Errorf("%+v", n)
	}
	if n := server.NICs[3]; *n.V4 != (IPConf{Static, addr3}) || !server.Attached(addr3) {
		t.Errorf("%+v", n)
	}
	// It is written as it was read.
	raw, err := json.Marshal(server)
	if err != nil {
		t.Fatal(err)
	}
	var again Server
	if err := json.Unmarshal(raw, &again); err != nil || !sameCards(server, &again) || again.UUID != server.UUID {
		t.Errorf("%v %s", err, raw)
	}
	six := netip.MustParseAddr("2001:db8:f::7")
	s.Subscribe(six)
	if now, err := c.Servers.Change(t.Context(), made.UUID, attach(six)); err != nil || !now.Attached(six) {
		t.Errorf("%+v, %v", now, err)
	}
}

// Accepted is not done.
func TestIgnored(t *testing.T) {
	s, c := simulated(t, sim.Knobs{Running: "ignore"})
	id := node(t, s, "node1", "dhcp")
	if _, err := c.Servers.Change(t.Context(), id, attach(addr1)); !IsIgnored(err) {
		t.Errorf("attach: %v", err)
	}
	if _, again := cloud.RetryAfter(&IgnoredError{}); again {
		t.Error("it gets better by itself")
	}
	s.Turn(func(k *sim.Knobs) { k.Running = "store" })
	if _, err := c.Servers.Change(t.Context(), id, attach(addr1)); err != nil {
		t.Errorf("attach: %v", err)
	}
	s.Turn(func(k *sim.Knobs) { k.Running = "ignore" })
	if _, err := c.Servers.Change(t.Context(), id, detach(addr1)); !IsIgnored(err) {
		t.Errorf("detach: %v", err)
	}
	s.Turn(func(k *sim.Knobs) { k.Running = "reject" })
	if _, err := c.Servers.Change(t.Context(), id, detach(addr1)); !cloud.IsInvalid(err) || IsIgnored(err) {
		t.Errorf("detach: %v", err)
	}
}

// Changes that come while a server is read are one PUT; a bad one among them, and an
// error of a change itself, concern nobody else.
func TestMergedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := simulated(t, sim.Knobs{})
		id := node(t, s, "node1", "dhcp")
		s.Fail(sim.Fault{Latency: time.Second, Times: -1})
		var mu sync.Mutex
		results := map[string]error{}
		var all sync.WaitGroup
		begin := func(name string, change func(*Server) error) {
			all.Go(func() {
				_, err := c.Servers.Change(t.Context(), id, change)
				mu.Lock()
				defer mu.Unlock()
				results[name] = err
			})
			synctest.Wait()
		}
		own := errors.New("own")
		begin("first", attach(addr1))
		begin("second", attach(addr2))
		begin("third", attach(addr3))
		begin("own", func(s *Server) error { s.Detach(addr1); return own })
		all.Wait()
		if results["first"] != nil || results["second"] != nil || results["third"] != nil || !errors.Is(results["own"], own) {
			t.Error(results)
		}
		if n := s.Counts()[sim.Call{Method: "PUT", Kind: sim.Servers}]; n != 1 {
			t.Errorf("%d PUTs", n)
		}
		server, _ := s.Server(id)
		if diff := cmp.Diff([]netip.Addr{addr1, addr2, addr3}, server.Statics(), compareAddrs); diff != "" {
			t.Error(diff)
		}
		begin("blocks", detach(addr2))
		begin("good", detach(addr3))
		begin("bad", attach(netip.MustParseAddr("198.51.100.1")))
		all.Wait()
		if results["good"] != nil || !cloud.IsInvalid(results["bad"]) {
			t.Error(results)
		}
		if server, _ = s.Server(id); fmt.Sprint(server.Statics()) != "[192.0.2.7]" {
			t.Error(server.Statics())
		}
	})
}

// Each call of a change × each fault: what is returned is what is there.
func TestServerFaults(t *testing.T) {
	for _, fault := range []sim.Fault{
		{Status: 503}, {Status: 500}, {Status: 502, Body: "<html>Bad Gateway</html>"}, {Status: 504}, {Status: 429}, {Cut: true}, {Lose: true}, {Status: 401}, {Status: 403}, {Status: 402},
	} {
		for call := range 3 {
			t.Run(fmt.Sprint(fault.String(), " in call ", call), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c := simulated(t, sim.Knobs{})
					id := node(t, s, "node1", "dhcp")
					fault.Skip = call
					s.Fail(fault)
					now, err := c.Servers.Change(t.Context(), id, attach(addr1))
					server, _ := s.Server(id)
					if err == nil && (!now.Attached(addr1) || len(server.Statics()) != 1) {
						t.Errorf("it was not done: %+v", now)
					}
					if survived := fault.Status == 503 || fault.Status == 429 || fault.Lose && call == 1 || call != 1 && (fault.Status >= 500 || fault.Cut || fault.Lose); survived && err != nil {
						t.Errorf("not survived: %v", err)
					}
					if fault.Status == 402 && !IsBilling(err) || fault.Status == 403 && !cloud.IsForbidden(err) || fault.Status == 401 && !cloud.IsUnauthorized(err) {
						t.Errorf("error %v", err)
					}
					// Again, by whoever tries again.
					if now, err = c.Servers.Change(t.Context(), id, attach(addr1)); err != nil || !now.Attached(addr1) {
						t.Errorf("%+v, %v", now, err)
					}
					if server, _ = s.Server(id); len(server.NICs) != 2 {
						t.Errorf("cards %+v", server.NICs)
					}
				})
			})
		}
	}
}

// The password of a server's console is not shown, whoever quotes it.
func TestConsolePassword(t *testing.T) {
	const password = "consolepassword"
	c := scripted(t, func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			return answer(400, string(body)), nil
		}
		return answer(200, `{"uuid":"a","vnc_password":"`+password+`","nics":[]}`), nil
	})
	_, err := c.Servers.Change(t.Context(), "a", attach(addr1))
	server, _ := c.Servers.Get(t.Context(), "a")
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", err, err, err), fmt.Sprintf("%v %+v %#v %s", server, server, server, server), fmt.Sprintf("%v %+v %#v", *server, *server, *server)} {
		if strings.Contains(shown, password) {
			t.Error(shown)
		}
	}
	if !strings.Contains(err.Error(), "****") {
		t.Error(err)
	}
}

func TestServerGone(t *testing.T) {
	_, c := simulated(t, sim.Knobs{})
	_, err := c.Servers.Change(t.Context(), "6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e", detach(addr1))
	if !cloud.IsNotFound(err) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Servers.Change(ctx, "x", detach(addr1)); err == nil {
		t.Error("done")
	}
}
