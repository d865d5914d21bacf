package cloudsigma

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudsigma"
	"fairlead.io/sandbox/simulator"
)

func oauth(t *testing.T) *OAuth {
	t.Helper()
	secret, err := cloud.NewSecret("client secret", testToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &OAuth{URL: "https://oauth.example.com/auth", ClientID: "fairlead", ClientSecret: secret, UserEmail: "user@example.com"}
}

// count is how many tokens were given to users.
func count(s *sim.Simulator) int {
	return s.Counts()[sim.Call{Method: http.MethodPost, Kind: sim.Impersonation}]
}

// A token is got once for many calls, renewed before its end, and replaced when it
// is refused. It is used on the direct host: on the other it would see nothing.
func TestImpersonation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := simulated(t, sim.Knobs{TokenLifetime: simulator.Duration(20 * time.Minute)})
		c := clientOf(t, s, Options{Region: "zrh", OAuth: oauth(t)})
		if c.URL() != "https://direct.zrh.cloudsigma.com/api/2.0/" {
			t.Error(c.URL())
		}
		list := func(want int) {
			t.Helper()
			if ips, err := c.IPs.List(t.Context()); err != nil || len(ips) != 3 {
				t.Errorf("%d IPs, %v", len(ips), err)
			}
			if got := count(s); got != want {
				t.Errorf("%d tokens, want %d", got, want)
			}
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { list(1) })
		}
		all.Wait()
		<-time.After(14 * time.Minute)
		list(1)
		<-time.After(time.Minute)
		list(2)
		s.EndSessions()
		list(3)
		// While it cannot be renewed, the old one is used to its end.
		<-time.After(15 * time.Minute)
		end := s.Fail(sim.Fault{Kind: sim.Impersonation, Status: 504, Times: -1})
		list(4)
		list(4) // it is not tried at every call
		<-time.After(5 * time.Minute)
		if _, err := c.IPs.List(t.Context()); err == nil || cloud.IsNotFound(err) {
			t.Error(err)
		}
		end()
		s.ResetLog()
		list(1)
		s.Fail(sim.Fault{Kind: sim.IPs, Status: 401, Times: -1})
		if _, err := c.IPs.List(t.Context()); !cloud.IsUnauthorized(err) {
			t.Error(err)
		}
		if got := count(s); got != 2 {
			t.Errorf("%d tokens: a refused one is replaced once", got)
		}
	})
}

// An endpoint that is set is used for everything, over a real connection.
func TestImpersonationAtEndpoint(t *testing.T) {
	s, _ := simulated(t, sim.Knobs{})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	o, err := FromEnv(env(EnvRegion, "zrh", EnvEndpoint, server.URL+"/api/2.0", EnvOAuthURL2, server.URL+"/auth", EnvClientID, "fairlead", EnvClientSecret, testToken, EnvUserEmail, "user@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.HTTP = transport
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if ips, err := c.IPs.List(t.Context()); err != nil || len(ips) != 3 {
		t.Errorf("%d IPs, %v", len(ips), err)
	}
}

// A lifetime that is not told is 15 minutes.
func TestUntoldLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := simulated(t, sim.Knobs{})
		c := clientOf(t, s, Options{Region: "zrh", OAuth: oauth(t)})
		for passed, want := range []int{1, 1, 2} {
			if _, err := c.IPs.List(t.Context()); err != nil || count(s) != want {
				t.Errorf("after %d pauses: %d tokens, %v", passed, count(s), err)
			}
			<-time.After(5*time.Minute - time.Second + time.Duration(passed)*2*time.Second)
		}
	})
}

// A gateway's 504 passes; what the token server does not find is no missing object.
func TestTokenFaults(t *testing.T) {
	for _, kind := range []sim.Kind{sim.Token, sim.Impersonation} {
		for status, is := range map[int]func(error) bool{
			504: func(err error) bool { return err == nil }, 503: func(err error) bool { return err == nil },
			404: cloud.IsUnauthorized, 400: cloud.IsUnauthorized, 401: cloud.IsUnauthorized, 403: cloud.IsForbidden,
		} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := simulated(t, sim.Knobs{})
				c := clientOf(t, s, Options{Region: "zrh", OAuth: oauth(t)})
				s.Fail(sim.Fault{Kind: kind, Status: status})
				_, err := c.Servers.Get(t.Context(), node(t, s, "node1", "dhcp"))
				if !is(err) || cloud.IsNotFound(err) || cloud.IsOutcomeUnknown(err) {
					t.Errorf("%s %d: %v", kind, status, err)
				}
			})
		}
	}
}

// No secret is in an error, whoever quotes it, nor in anything that is printed.
func TestNoSecrets(t *testing.T) {
	password, err := cloud.NewSecret("password", testToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"OAuth": {OAuth: oauth(t)}, "token": {Token: token(t, testToken)}, "password": {Basic: &cloud.Basic{User: "me@example.com", Password: password}},
	} {
		for step := range 4 { // of a call by OAuth
			o.Region = "zrh"
			var seen []string
			o.HTTP = roundTripper(func(r *http.Request) (*http.Response, error) {
				body := ""
				if r.Body != nil {
					raw := make([]byte, 4096)
					n, _ := r.Body.Read(raw)
					body = string(raw[:n])
				}
				secret := strings.TrimPrefix(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "Basic ")
				if secret != "" {
					seen = append(seen, secret)
				}
				seen = append(seen, testToken, "secrettoken")
				if strings.Contains(r.URL.Path, "api/2.0") || step == 0 {
					return answer(403, "You sent "+secret+" "+body), nil
				}
				step--
				return answer(200, fmt.Sprintf(`{"access_token":"secrettoken%d","expires_in":60}`, step)), nil
			})
			c, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Servers.Get(t.Context(), "x")
			for _, shown := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err), fmt.Sprintf("%v %+v", o, o.OAuth), o.Way(), fmt.Sprintf("%v %+v", c.transport, c.transport)} {
				for _, secret := range seen {
					if strings.Contains(shown, secret) {
						t.Errorf("%s shows %s: %s", name, secret, shown)
					}
				}
			}
		}
	}
}

// A token that cannot be sent, or is none, is an error that does not quote it.
func TestBrokenTokens(t *testing.T) {
	for _, body := range []string{`{}`, `{"access_token":"two\nlines"}`, `{"access_token":7}`, `secret`, ``, `[]`, `null`} {
		o := Options{Region: "zrh", OAuth: oauth(t), HTTP: roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, body), nil })}
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			if _, err := c.Servers.Get(t.Context(), "x"); err == nil || strings.Contains(err.Error(), "two") || strings.Contains(err.Error(), "secret,") {
				t.Errorf("%s: %v", body, err)
			}
		})
	}
}
