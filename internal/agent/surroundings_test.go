package agent

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"fairlead.io/internal/link"
)

func TestNameServers(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]",
		"search example.com\nnameserver 192.0.2.53\nnameserver 2001:db8::53\noptions edns0\n": "[192.0.2.53 2001:db8::53]",
		"nameserver 127.0.0.53\nnameserver ::1\nnameserver 0.0.0.0":                           "[]",
		"nameserver fe80::1%eth0\n\tnameserver  192.0.2.53 # ours\nnameserver 192.0.2.53":     "[fe80::1 192.0.2.53]",
		"nameserver\nnameserver dns.example\n#nameserver 192.0.2.1\nnameservers 192.0.2.2":    "[]",
		"nameserver ::ffff:192.0.2.53": "[192.0.2.53]",
	} {
		same(t, text, nameServers(text), want)
	}
}

// DHCP servers of a network write into resolv.conf.
func FuzzNameServers(f *testing.F) {
	f.Add("nameserver 192.0.2.53\nnameserver fe80::1%eth0")
	f.Fuzz(func(t *testing.T, text string) {
		for _, addr := range nameServers(text) {
			if again, err := netip.ParseAddr(addr.String()); err != nil || again != addr || addr.IsLoopback() {
				t.Errorf("%q has %v", text, addr)
			}
		}
	})
}

// What cannot be read is as before.
func TestSurroundings(t *testing.T) {
	kernel := link.NewFake()
	kernel.Routers = addrs("192.0.2.1")
	s := newSurroundings(kernel)
	s.file = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(s.file, []byte("nameserver 192.0.2.53"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.read()
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	kernel.Routers = addrs("192.0.2.2")
	s.read()
	gateways, servers := s.now()
	same(t, "gateways, name servers", fmt.Sprint(gateways, servers), "[192.0.2.2] [192.0.2.53]")
}

// Which interfaces the Agent object has, with which addresses, and why nothing is
// announced there.
func TestInterfaces(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, x := range texts {
			out = append(out, netip.MustParsePrefix(x))
		}
		return out
	}
	s := scope{excluded: inward, named: map[string]bool{"veth7": true, "dummy0": true}}
	published := func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.50") }
	for name, c := range map[string]struct {
		link link.Link
		want string
	}{
		"a card":                               {link.Link{Name: "eth0", Up: true, Global: [2]bool{true, true}, Prefixes: prefixes("192.0.2.1/24", "2001:db8::1/64", "fe80::1/64")}, "[{eth0 true [192.0.2.1/24 2001:db8::1/64]  [IPv4 IPv6] []}]"},
		"a VIP of keepalived":                  {link.Link{Name: "eth0", Up: true, Prefixes: prefixes("192.0.2.1/24", "192.0.2.9/32")}, "[{eth0 true [192.0.2.1/24 192.0.2.9/32]  [IPv4] [IPv4]}]"},
		"what a Service publishes":             {link.Link{Name: "eth0", Up: true, Prefixes: prefixes("192.0.2.1/24", "192.0.2.50/32")}, "[{eth0 true [192.0.2.1/24]  [IPv4] [IPv4]}]"},
		"a card that is down":                  {link.Link{Name: "eth1"}, "[{eth1 false [] down [] []}]"},
		"a port of a bond":                     {link.Link{Name: "eth2", Up: true, Slave: true}, "[{eth2 true [] port of a bridge, bond or team [] []}]"},
		"the bridge of pods":                   {link.Link{Name: "cni0", Up: true, Prefixes: prefixes("10.244.0.1/24")}, "[{cni0 true [10.244.0.1/24] excluded by its name; a pool can name it [] []}]"},
		"a pod's":                              {link.Link{Name: "veth1", Up: true, Crossing: true, Prefixes: prefixes("fe80::2/64")}, "[]"},
		"a pod's by another name":              {link.Link{Name: "enia1b2", Up: true, Crossing: true, Prefixes: prefixes("fe80::2/64")}, "[]"},
		"a pod's that a pool names":            {link.Link{Name: "veth7", Up: true, Crossing: true}, "[{veth7 true []  [IPv4] [IPv4]}]"},
		"the card of a node in a container":    {link.Link{Name: "eth0", Up: true, Crossing: true, Prefixes: prefixes("192.0.2.1/24")}, "[{eth0 true [192.0.2.1/24]  [IPv4] [IPv4]}]"},
		"kube-proxy's":                         {link.Link{Name: "kube-ipvs0", Prefixes: prefixes("10.96.0.1/32", "192.0.2.7/32")}, "[]"},
		"loopback":                             {link.Link{Name: "lo", Up: true, Loopback: true, Prefixes: prefixes("127.0.0.1/8", "::1/128")}, "[]"},
		"an address of the node on loopback":   {link.Link{Name: "lo", Up: true, Loopback: true, Prefixes: prefixes("127.0.0.1/8", "198.51.100.1/32")}, "[{lo true [198.51.100.1/32] loopback [] []}]"},
		"excluded by name, with nothing on it": {link.Link{Name: "docker0"}, "[]"},
	} {
		same(t, name, interfacesOf([]link.Link{c.link}, &s, published), c.want)
	}
	all := make([]link.Link, 2*maxInterfaces)
	for i := range all {
		all[i] = link.Link{Name: fmt.Sprintf("eth%d", i), Up: true}
	}
	if got := interfacesOf(all, &scope{excluded: regexp.MustCompile(`^x`)}, published); len(got) != maxInterfaces {
		t.Errorf("%d interfaces", len(got))
	}
}
