package ovn

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/test/kit/chassis"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
)

// answers is who serves a connection, and whom he sees.
func answers(t *testing.T, ns *netns.NS, from, to string) string {
	t.Helper()
	d := net.Dialer{Timeout: 3 * time.Second}
	if from != "" {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	}
	var conn net.Conn
	var err error
	ns.Do(func() { conn, err = d.DialContext(t.Context(), "tcp", to) })
	if err != nil {
		return ""
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(d.Timeout)); err != nil {
		t.Errorf("%s to %s: %v", ns.Name, to, err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "" // the rules have changed meanwhile
	}
	return string(text)
}

// greet says to everybody who connects who he is.
func greet(t *testing.T, ns *netns.NS) {
	t.Helper()
	var l net.Listener
	var err error
	ns.Do(func() { l, err = net.Listen("tcp", "[::]:8080") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
			_, _ = io.WriteString(conn, ns.Name+" sees "+remote.Addr().Unmap().String())
			_ = conn.Close()
		}
	}()
}

// network is a project with two pods and its router, and a network outside.
type network struct {
	server                       *northbound.Server
	chassis                      *chassis.Chassis
	friend, stranger, pod, other *netns.NS
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{server: northbound.Start(t)}
	s := n.server
	s.Ctl("init")
	n.chassis = chassis.Start(t, s)
	router := func(name, number string) {
		s.Ctl("lr-add", name, "--", "ls-add", name+"-default",
			"--", "lrp-add", name, name+"-inside", "02:00:00:00:1"+number+":01", "10."+number+"0.0.1/24", "fd00:"+number+"0::1/64",
			"--", "lsp-add", name+"-default", "inside-"+name, "--", "lsp-set-type", "inside-"+name, "router", "--", "lsp-set-addresses", "inside-"+name, "router", "--", "lsp-set-options", "inside-"+name, "router-port="+name+"-inside",
			"--", "lrp-add", name, name+"-ext-public", "02:00:00:00:2"+number+":01", "168.119.17.5"+number+"/28", "2001:db8::5"+number+"/64", "--", "lrp-set-gateway-chassis", name+"-ext-public", chassis.Name,
			"--", "lr-nat-add", name, "snat", "168.119.17.5"+number, "10."+number+"0.0.0/24")
		outside(s, name)
		s.Ctl("lsp-set-addresses", "ext-public-"+name, "router")
	}
	router("shalb-dev", "1")
	router("shalb-prod", "3")
	s.Ctl("lsp-add", "ext-public", "localnet", "--", "lsp-set-type", "localnet", "localnet", "--", "lsp-set-addresses", "localnet", "unknown", "--", "lsp-set-options", "localnet", "network_name="+chassis.Physical)
	pod := func(project, name, number string) *netns.NS {
		mac := "02:00:00:00:00:" + number
		s.Ctl("lsp-add", project+"-default", name, "--", "lsp-set-addresses", name, fmt.Sprintf("%s 10.%s.0.11 fd00:%s::11", mac, number, number))
		ns := n.chassis.Pod(name, mac, "10."+number+".0.11/24", "fd00:"+number+"::11/64")
		chassis.Route(ns, "10."+number+".0.1", "fd00:"+number+"::1")
		greet(t, ns)
		return ns
	}
	n.pod, n.other = pod("shalb-dev", "pod", "10"), pod("shalb-prod", "other", "30")
	n.friend = n.chassis.Outside("friend", "168.119.17.49/28", "2001:db8::49/64")
	n.stranger = n.chassis.Outside("stranger", "168.119.17.60/28", "2001:db8::60/64")
	// Clients behind a router: the friend routes for them.
	for _, a := range []string{"192.0.2.7/32", "198.51.100.7/32", "2001:db8:7::7/128"} {
		n.friend.Run("ip", "addr", "add", a, "dev", "lo")
	}
	s.Ctl("lr-route-add", "shalb-dev", "0.0.0.0/0", "168.119.17.49", "--", "lr-route-add", "shalb-dev", "::/0", "2001:db8::49")
	return n
}

// Packets of networks that are not allowed are dropped, whichever way they take into the
// router, and all others are not.
func TestPacketsOfOtherSourcesAreDropped(t *testing.T) {
	n := newNetwork(t)
	w := &Service{Namespace: "shalb-dev", Name: "web", UID: "u1", Router: "shalb-dev", Switches: []string{"shalb-dev-default"}, Strict: true, Listeners: []Listener{
		listener("tcp", "168.119.17.52:80", "10.10.0.11:8080"), listener("tcp", "168.119.17.52:81", "10.10.0.11:8080"),
		listener("tcp", "[2001:db8::52]:80", "[fd00:10::11]:8080"), listener("tcp", "168.119.17.51:80", "10.10.0.11:8080"),
	}}
	k := keep(t, "c1", []string{n.server.Endpoint()}, w)
	k.settled("open to everybody")
	n.chassis.Wait()

	const vip, second, vip6, gateway = "168.119.17.52:80", "168.119.17.52:81", "[2001:db8::52]:80", "168.119.17.51:80"
	clients := []struct {
		ns       *netns.NS
		from, to string
		sees     string
		allowed  bool
	}{
		{n.friend, "", vip, "168.119.17.49", true},
		{n.friend, "", second, "168.119.17.49", true},
		{n.friend, "", vip6, "2001:db8::49", true},
		{n.friend, "", gateway, "168.119.17.49", true},
		{n.friend, "192.0.2.7", vip, "192.0.2.7", true},
		{n.friend, "198.51.100.7", vip, "198.51.100.7", false},
		{n.friend, "2001:db8:7::7", vip6, "2001:db8:7::7", false},
		{n.stranger, "", vip, "168.119.17.60", false},
		{n.stranger, "", second, "168.119.17.60", false},
		{n.stranger, "", vip6, "2001:db8::60", false},
		{n.stranger, "", gateway, "168.119.17.60", false},
		{n.other, "", vip, "168.119.17.53", false}, // of another project, by its router
		{n.pod, "", vip, "168.119.17.52", true},    // of the project itself
	}
	// The switch goes on with what it knows of a packet until it has looked at its tables
	// again, which happens soon.
	check := func(what string, open bool) {
		t.Helper()
		var all sync.WaitGroup
		for _, c := range clients {
			want := ""
			if open || c.allowed {
				want = "pod sees " + c.sees
			}
			all.Go(func() {
				got := answers(t, c.ns, c.from, c.to)
				for began := time.Now(); got != want && time.Since(began) < patience; {
					got = answers(t, c.ns, c.from, c.to)
				}
				if got != want {
					t.Errorf("%s: %s %s to %s: %q, want %q", what, c.ns.Name, c.from, c.to, got, want)
				}
			})
		}
		all.Wait()
	}
	netns.Eventually(t, patience, "the router answers", func() bool { return answers(t, n.friend, "", vip) != "" })
	check("open", true)

	filtered := *w
	only(&filtered, "168.119.17.48/31", "192.0.2.0/24", "2001:db8::40/124")
	k.want(&filtered)
	k.settled("filtered")
	n.chassis.Wait()
	check("filtered", false)

	// Others' rules with connection tracking are on the same switch.
	n.server.Ctl("acl-add", "ext-public", "to-lport", "1001", "ip", "allow-related", "--", "acl-add", "ext-public", "from-lport", "1001", "ip", "allow-related")
	n.chassis.Wait()
	check("beside others' rules", false)
	if out := n.friend.Run("ping", "-c", "1", "-W", "5", "168.119.17.51"); !strings.Contains(out, "1 received") {
		t.Error(out)
	}

	k.want(w)
	k.settled("open again")
	n.chassis.Wait()
	check("open again", true)
}
