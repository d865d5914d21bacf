package cloudsigma

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudsigma"
)

// moving has an address on the first of two servers, as it was a while ago.
func moving(t *testing.T, addresses ...netip.Addr) (s *sim.Simulator, c *Client, from, to string) {
	t.Helper()
	s, c = simulated(t, sim.Knobs{})
	from, to = node(t, s, "node1", "dhcp"), node(t, s, "node2", "dhcp")
	for _, a := range addresses {
		if _, err := c.Servers.Change(t.Context(), from, attach(a)); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(time.Minute)
	s.ResetLog()
	return s, c, from, to
}

// failedAt is the server at which a move failed.
func failedAt(err error) string {
	failed, is := errors.AsType[*MoveError](err)
	if !is {
		return ""
	}
	return failed.Server
}

// Both servers are read at once, before and after.
func TestMoveCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, from, to := moving(t, addr1)
		now, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1))
		if err != nil || now.UUID != to || !now.Attached(addr1) {
			t.Fatalf("%v, %v", now, err)
		}
		var got []string
		for _, r := range s.Log() {
			got = append(got, r.Method+" "+strings.NewReplacer("/api/2.0/servers/", "", from, "from", to, "to").Replace(r.Path))
			if r.Method == http.MethodGet && (!strings.Contains(r.Query, from) || !strings.Contains(r.Query, to)) {
				t.Errorf("query %s", r.Query)
			}
		}
		if want := "[GET detail/ PUT from/ PUT to/ GET detail/]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
		for _, cached := range c.Servers.Peek() {
			if cached.Attached(addr1) != (cached.UUID == to) {
				t.Errorf("cached %v %v", &cached, cached.NICs)
			}
		}
	})
}

// Many addresses leave a dead server together, and are read back together.
func TestManyMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, from, to := moving(t, addr1, addr2, addr3)
		s.Fail(sim.Fault{Latency: 500 * time.Millisecond, Times: -1})
		began := time.Now()
		var all sync.WaitGroup
		for _, a := range []netip.Addr{addr1, addr2, addr3} {
			all.Go(func() {
				if now, err := c.Servers.Move(t.Context(), from, detach(a), to, attach(a)); err != nil || !now.Attached(a) {
					t.Errorf("%v, %v", now, err)
				}
			})
		}
		all.Wait()
		if n, took := len(s.Log()), time.Since(began); n != 4 || took > 2100*time.Millisecond {
			t.Errorf("%d calls in %s", n, took)
		}
	})
}

// "200, but ignored" is found at either server.
func TestMoveIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, from, to := moving(t, addr1)
		s.Turn(func(k *sim.Knobs) { k.Running = "ignore" })
		if _, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1)); !IsIgnored(err) || failedAt(err) != from {
			t.Errorf("%s: %v", failedAt(err), err)
		}
		if err := s.SetStatus(from, "stopped"); err != nil { // there it is stored
			t.Fatal(err)
		}
		c.Servers.Forget()
		if _, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1)); !IsIgnored(err) || failedAt(err) != to {
			t.Errorf("%s: %v", failedAt(err), err)
		}
	})
}

// A server that is gone is named; whether the address may go on is the caller's to say.
func TestMoveFromNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, from, to := moving(t, addr1)
		if err := s.Delete(sim.Servers, from); err != nil {
			t.Fatal(err)
		}
		_, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1))
		if !cloud.IsNotFound(err) || failedAt(err) != from {
			t.Errorf("%s: %v", failedAt(err), err)
		}
		if server, _ := s.Server(to); len(server.Statics()) != 0 {
			t.Error("it was attached")
		}
	})
}

// Each call of a move × each fault: what is returned is what is there.
func TestMoveFaults(t *testing.T) {
	for _, fault := range []sim.Fault{{Status: 400}, {Status: 404}, {Status: 503}, {Status: 500}, {Cut: true}, {Lose: true}, {Status: 401}, {Status: 403}} {
		for call := range 4 {
			t.Run(fmt.Sprint(fault.String(), " in call ", call), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c, from, to := moving(t, addr1)
					fault.Skip = call
					s.Fail(fault)
					_, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1))
					was, _ := s.Server(from)
					is, _ := s.Server(to)
					if err == nil && (len(was.Statics()) != 0 || len(is.Statics()) != 1) {
						t.Errorf("it was not done: %v, %v", was.Statics(), is.Statics())
					}
					if err != nil && failedAt(err) == "" {
						t.Errorf("error %v", err)
					}
					c.Servers.Forget()
					if _, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1)); err != nil {
						t.Error(err)
					}
					if is, _ = s.Server(to); len(is.NICs) != 2 {
						t.Errorf("cards %+v", is.NICs)
					}
				})
			})
		}
	}
}

// What was read before another's write is not written back.
func TestMoveBesideAnotherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, from, to := moving(t, addr1)
		s.Fail(sim.Fault{Latency: 500 * time.Millisecond, Times: -1})
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Servers.Move(t.Context(), from, detach(addr1), to, attach(addr1)); err != nil {
				t.Error(err)
			}
		})
		for i, a := range []netip.Addr{addr2, addr3} {
			all.Go(func() {
				<-time.After(time.Duration(100+700*i) * time.Millisecond)
				if _, err := c.Servers.Change(t.Context(), to, attach(a)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if server, _ := s.Server(to); len(server.Statics()) != 3 || len(server.NICs) != 4 {
			t.Errorf("cards %+v", server.NICs)
		}
	})
}
