package cloudscale

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudscale"
)

// simulated is a client of a simulated cloud, which was written by the API's
// documentation and not by this client.
func simulated(t *testing.T, o sim.Options) (*sim.Simulator, *Client) {
	t.Helper()
	o.Token = testToken
	s := sim.New(o)
	t.Cleanup(s.Close)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, withToken(t, server.URL, testToken)
}

func withToken(t *testing.T, url, value string) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	token, err := cloud.NewToken(value)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Token: token, URL: url, HTTP: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Everything that is asked for comes back as it was asked for, and changed as it
// was changed.
func TestWholeLoadBalancer(t *testing.T) {
	s, c := simulated(t, sim.Options{Creating: -1, Changing: -1})
	ctx := t.Context()
	network := s.AddNetwork(sim.Network{Name: "lan", Zone: "lpg1"})
	subnet := s.AddSubnet(sim.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.0.0.0/24")})
	s.AddFloatingIP(sim.FloatingIP{Prefix: netip.MustParsePrefix("192.0.2.200/32"), Region: "lpg"})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	same := func(want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got, compareNets, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(time.Time{})); diff != "" {
			t.Error(diff)
		}
	}
	tags := Tags{"cluster": "prod"}

	lb, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "web", Flavor: "lb-standard", Zone: "lpg1", Tags: tags})
	ok(err)
	if len(lb.VIPAddresses) != 2 || lb.VIPAddresses[0].Version != 4 || !lb.VIPAddresses[1].Address.Is6() {
		t.Errorf("addresses %+v", lb.VIPAddresses)
	}
	same(LoadBalancer{UUID: lb.UUID, Name: "web", Status: lb.Status, Zone: Slug{"lpg1"}, Flavor: Slug{"lb-standard"}, VIPAddresses: lb.VIPAddresses, Tags: tags}, *lb)
	private, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "inside", Flavor: "lb-standard", Zone: "lpg1", VIPAddresses: []NewVIPAddress{{Subnet: subnet.UUID, Address: netip.MustParseAddr("10.0.0.77")}}})
	ok(err)
	same([]VIPAddress{{4, netip.MustParseAddr("10.0.0.77"), SubnetRef{subnet.UUID, subnet.CIDR}}}, private.VIPAddresses)
	tagged, err := c.LoadBalancers.List(ctx, tags)
	ok(err)
	same([]LoadBalancer{*lb}, tagged)
	ok(c.LoadBalancers.Patch(ctx, lb.UUID, LoadBalancerPatch{Name: new("web-2")}))

	pool, err := c.Pools.Create(ctx, NewPool{Name: "tcp/http", LoadBalancer: lb.UUID, Algorithm: "least_connections", Protocol: "proxyv2", Tags: tags})
	ok(err)
	same(Pool{pool.UUID, "tcp/http", Ref{lb.UUID, "web-2"}, "least_connections", "proxyv2", tags}, *pool)

	members := c.Members(pool.UUID)
	member, err := members.Create(ctx, NewMember{Name: "10.0.0.1:30080", ProtocolPort: 30080, MonitorPort: 31000, Address: netip.MustParseAddr("10.0.0.1"), Subnet: subnet.UUID})
	ok(err)
	ok(members.Patch(ctx, member.UUID, MemberPatch{Enabled: new(false)}))
	all, err := members.List(ctx, nil)
	ok(err)
	same([]Member{{UUID: member.UUID, Name: "10.0.0.1:30080", Pool: Ref{pool.UUID, "tcp/http"}, LoadBalancer: Ref{lb.UUID, "web-2"}, ProtocolPort: 30080, MonitorPort: 31000,
		Address: netip.MustParseAddr("10.0.0.1"), Subnet: SubnetRef{subnet.UUID, subnet.CIDR}, MonitorStatus: all[0].MonitorStatus}}, all)

	listener, err := c.Listeners.Create(ctx, NewListener{Name: "tcp/80", Pool: pool.UUID, Protocol: "tcp", ProtocolPort: 80, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("7.0.0.0/8")}, TimeoutClientDataMS: 60000})
	ok(err)
	ok(c.Listeners.Patch(ctx, listener.UUID, ListenerPatch{AllowedCIDRs: new(CIDRs(nil))}))
	listener, err = c.Listeners.Get(ctx, listener.UUID)
	ok(err)
	same(Listener{UUID: listener.UUID, Name: "tcp/80", Pool: &Ref{pool.UUID, "tcp/http"}, LoadBalancer: Ref{lb.UUID, "web-2"}, Protocol: "tcp", ProtocolPort: 80,
		TimeoutClientDataMS: 60000, TimeoutMemberConnectMS: 5000, TimeoutMemberDataMS: 50000}, *listener)

	monitor, err := c.HealthMonitors.Create(ctx, NewHealthMonitor{Pool: pool.UUID, Type: "http", DelayS: 5, HTTP: &HTTPCheck{ExpectedCodes: []string{"200"}, URLPath: "/livez", Host: new("example.com")}})
	ok(err)
	ok(c.HealthMonitors.Patch(ctx, monitor.UUID, HealthMonitorPatch{UpThreshold: new(4)}))
	ok(c.HealthMonitors.Patch(ctx, monitor.UUID, HealthMonitorPatch{HTTP: &HTTPCheckPatch{ExpectedCodes: []string{"200-204"}, Method: "HEAD", URLPath: "/"}}))
	monitors, err := c.HealthMonitors.List(ctx, nil)
	ok(err)
	same([]HealthMonitor{{UUID: monitor.UUID, Pool: Ref{pool.UUID, "tcp/http"}, LoadBalancer: Ref{lb.UUID, "web-2"}, Type: "http", DelayS: 5, TimeoutS: 1, UpThreshold: 4, DownThreshold: 3,
		HTTP: &HTTPCheck{ExpectedCodes: []string{"200-204"}, Method: "HEAD", URLPath: "/", Version: "1.1"}}}, monitors)

	ok(c.FloatingIPs.Assign(ctx, netip.MustParsePrefix("192.0.2.200/32"), lb.UUID))
	fip, err := c.FloatingIPs.Get(ctx, "192.0.2.200")
	ok(err)
	same(FloatingIP{Network: netip.MustParsePrefix("192.0.2.200/32"), LoadBalancer: &Ref{lb.UUID, "web-2"}, Region: &Slug{"lpg"}}, *fip)

	ok(c.LoadBalancers.Delete(ctx, lb.UUID))
	if _, err := c.LoadBalancers.Get(ctx, lb.UUID); !cloud.IsNotFound(err) {
		t.Errorf("a deleted load balancer: %v", err)
	}
	if rest, err := c.Pools.List(ctx, nil); err != nil || len(rest) != 0 {
		t.Errorf("pools are left: %v, %v", rest, err)
	}
}

// The words of a cloud that does not do what it is asked for.
func TestCloudSaysNo(t *testing.T) {
	s, c := simulated(t, sim.Options{Creating: time.Hour, ReadOnlyToken: "readonly"})
	ctx := t.Context()
	lb, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "web", Flavor: "lb-standard"})
	if err != nil {
		t.Fatal(err)
	}
	create := func() error {
		_, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "x", Flavor: "lb-standard"})
		return err
	}
	for _, test := range []struct {
		name string
		call func() error
		is   string
	}{
		{"while it is being made", func() error {
			_, err := c.Pools.Create(ctx, NewPool{Name: "tcp", LoadBalancer: lb.UUID, Algorithm: "round_robin", Protocol: "tcp"})
			return err
		}, "busy"},
		{"deleting it then", func() error { return c.LoadBalancers.Delete(ctx, lb.UUID) }, "busy"},
		{"a flavor that there is not", func() error {
			_, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "x", Flavor: "lb-huge"})
			return err
		}, "invalid"},
		{"what there is not", func() error { _, err := c.Pools.Get(ctx, lb.UUID); return err }, "notFound"},
		{"lost after it was done", func() error {
			defer s.Fail(sim.Fault{Method: http.MethodPost, Lose: true})()
			return create()
		}, "unknown"},
		{"cut before", func() error { // nobody can tell the difference
			defer s.Fail(sim.Fault{Method: http.MethodPost, Cut: true})()
			return create()
		}, "unknown"},
		{"in maintenance", func() error {
			defer s.Fail(sim.Fault{Status: 503, RetryAfter: time.Minute})()
			return create()
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.call()
			if _, ok := errors.AsType[*cloud.Error](err); !ok {
				t.Fatalf("error %v", err)
			}
			if got := predicates(err); got != test.is {
				t.Errorf("%v is %q, want %q", err, got, test.is)
			}
		})
	}
	if n := len(s.LoadBalancers()); n != 2 {
		t.Errorf("%d load balancers: the first, and the one whose answer was lost", n)
	}
	for name, is := range map[string]string{"readonly": "forbidden", "wrong": "unauthorized"} {
		c = withToken(t, c.URL(), name)
		if got := predicates(create()); got != is {
			t.Errorf("token %q: %q, want %q", name, got, is)
		}
	}
}
