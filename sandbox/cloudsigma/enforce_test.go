package cloudsigma_test

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox/cloudsigma"
)

// lan is a switch with two servers and a client on it, each in a namespace.
type lan struct {
	*testing.T
	prefix string
}

func newLAN(t *testing.T) lan {
	l := lan{t, "cs-" + strings.ToLower(time.Now().Format("150405.000000"))[7:]}
	hosts := []string{"node1", "node2", "client"}
	for _, name := range append(hosts, "switch") {
		l.must("ip", "netns", "add", l.netns(name))
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", l.netns(name)).Run() })
	}
	l.in("switch", "ip", "link", "add", "lan", "type", "bridge", "mcast_snooping", "0")
	l.in("switch", "ip", "link", "set", "lan", "up")
	for i, name := range hosts {
		l.must("ip", "-n", l.netns("switch"), "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", l.netns(name))
		l.in("switch", "ip", "link", "set", name, "master", "lan", "up")
		l.in(name, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad")
		l.in(name, "ip", "link", "set", "eth0", "up")
		own := string(rune('1' + i))
		l.in(name, "ip", "address", "add", "10.0.0."+own+"/24", "dev", "eth0")
		l.in(name, "ip", "address", "add", "fd00::"+own+"/64", "dev", "eth0", "nodad")
		l.in(name, "ip", "route", "add", "192.0.2.0/24", "dev", "eth0")
		l.in(name, "ip", "-6", "route", "add", "2001:db8:f::/64", "dev", "eth0")
	}
	return l
}

func (l lan) netns(host string) string { return l.prefix + "-" + host }

func (l lan) must(argv ...string) {
	l.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		l.Fatalf("%v: %v: %s", argv, err, out)
	}
}

func (l lan) in(host string, argv ...string) {
	l.Helper()
	l.must(append([]string{"ip", "netns", "exec", l.netns(host)}, argv...)...)
}

// answers says whether an address is reached from the client, with nothing known of
// its neighbours.
func (l lan) answers(addr netip.Addr) bool {
	l.in("client", "ip", "neighbour", "flush", "dev", "eth0")
	return exec.Command("ip", "netns", "exec", l.netns("client"), "ping", "-c1", "-W1", addr.String()).Run() == nil
}

func (l lan) await(addr netip.Addr, want bool) {
	l.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for l.answers(addr) != want {
		if time.Now().After(deadline) {
			l.Fatalf("%s answers: %v, want %v", addr, !want, want)
		}
	}
}

// A frame for an address reaches only a server that may have it, and a server that
// has an address without being allowed to is not heard.
func TestEnforced(t *testing.T) {
	l := newLAN(t)
	s := cloudsigma.New(cloudsigma.Options{})
	defer s.Close()
	six := netip.MustParseAddr("2001:db8:f::7")
	for _, a := range []netip.Addr{first, second, six} {
		s.Subscribe(a)
	}
	ids := map[string]string{}
	for name, mode := range map[string]string{"node1": "dhcp", "node2": "manual"} {
		server, err := s.AddServer(cloudsigma.NewServer{Name: name, NICs: []cloudsigma.NewNIC{{Mode: mode, Addr4: "*", Addr6: "*"}}})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = server.UUID
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Enforce(ctx, l.netns("switch")) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()

	for _, addr := range []netip.Addr{first, six} {
		bits := "/32"
		if addr.Is6() {
			bits = "/128"
		}
		l.in("node1", "ip", "address", "add", addr.String()+bits, "dev", "eth0")
		l.await(addr, false) // on the interface, not attached
		c := &cloud{Simulator: s, t: t}
		o := c.get(ids["node1"])
		card := static(addr)
		if addr.Is6() {
			card = object{"ip_v6_conf": object{"conf": "static", "ip": addr.String()}}
		}
		o["nics"] = append(o["nics"].([]any), card)
		c.want(200, "PUT", "servers/"+ids["node1"]+"/", o)
		l.await(addr, true) // both
		l.in("node1", "ip", "address", "del", addr.String()+bits, "dev", "eth0")
		l.await(addr, false) // attached, not on the interface
		l.in("node2", "ip", "address", "add", addr.String()+bits, "dev", "eth0")
		l.await(addr, true) // manual: any that is subscribed
	}
	if err := s.EndSubscription(second); err != nil {
		t.Fatal(err)
	}
	s.SetRouted(first, false)
	l.await(first, false)
	l.await(six, true)
	if err := s.SetStatus(ids["node2"], "stopped"); err != nil {
		t.Fatal(err)
	}
	l.await(six, false)
	// What is not the cloud's always passes.
	l.await(netip.MustParseAddr("10.0.0.1"), true)
	l.await(netip.MustParseAddr("fd00::2"), true)
}
