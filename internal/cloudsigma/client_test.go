package cloudsigma

import (
	"net/http"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudsigma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "abcdefghijklmnopqrstuvwxyz012345"

var (
	addr1 = netip.MustParseAddr("192.0.2.7")
	addr2 = netip.MustParseAddr("192.0.2.8")
	addr3 = netip.MustParseAddr("192.0.2.9")
)

func token(t *testing.T, value string) *cloud.Secret {
	t.Helper()
	secret, err := cloud.NewToken(value)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// simulated is a client of a simulated cloud, which was written by the API's
// documentation and not by this client.
func simulated(t *testing.T, k sim.Knobs) (*sim.Simulator, *Client) {
	t.Helper()
	s := sim.New(sim.Options{Token: testToken, Knobs: k})
	t.Cleanup(s.Close)
	for _, a := range []netip.Addr{addr1, addr2, addr3} {
		s.Subscribe(a)
	}
	return s, clientOf(t, s, Options{Region: "zrh", Token: token(t, testToken)})
}

func clientOf(t *testing.T, s *sim.Simulator, o Options) *Client {
	t.Helper()
	o.HTTP = s.Client().Transport
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func node(t *testing.T, s *sim.Simulator, name, mode string) string {
	t.Helper()
	server, err := s.AddServer(sim.NewServer{Name: name, NICs: []sim.NewNIC{{Mode: mode, Addr4: "*"}}})
	if err != nil {
		t.Fatal(err)
	}
	return server.UUID
}

// scripted is a client of an API that answers as handler does.
func scripted(t *testing.T, f func(*http.Request) (*http.Response, error)) *Client {
	t.Helper()
	c, err := New(Options{Region: "zrh", Token: token(t, testToken), HTTP: roundTripper(f)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	return f(r)
}
