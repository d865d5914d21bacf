package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
	vnetns "github.com/vishvananda/netns"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	peer = pair("192.0.2.1", "2001:db8:1::1")
	own  = pair("192.0.2.10", "2001:db8:1::10")
	vip  = pair("192.0.2.100", "2001:db8:1::100")
)

func pair(v4, v6 string) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

// lab is a node with a cable from its eth0 to the client's c0.
func lab(t testing.TB) (client, node *netns.NS) {
	client, node = netns.New(t, "client"), netns.New(t, "node")
	netns.Cable(
		netns.Plug{NS: client, Interface: "c0", Addresses: []string{"192.0.2.1/24", "2001:db8:1::1/64"}},
		netns.Plug{NS: node, Interface: "eth0", Addresses: []string{"192.0.2.10/24", "2001:db8:1::10/64"}})
	return client, node
}

func watch(t testing.TB, n *netns.NS) *link.Links {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	links, err := link.WatchIn(ctx, vnetns.NsHandle(n.FD()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		<-links.Done()
		if err := links.Err(); err != nil {
			t.Error(err)
		}
	})
	return links
}

func named(links *link.Links, name string) (link.Link, bool) {
	all := links.List()
	i := slices.IndexFunc(all, func(l link.Link) bool { return l.Name == name })
	if i < 0 {
		return link.Link{}, false
	}
	return all[i], true
}

// until waits for changes until cond holds.
func until(t *testing.T, links *link.Links, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !cond() {
		select {
		case <-links.Changed():
		case <-deadline:
			t.Fatalf("not told: %s\n%+v\n%+v", what, links.List(), links.Ours())
		}
	}
}

func TestInterfacesAreFollowed(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	is := func(name string, cond func(link.Link) bool) func() bool {
		return func() bool {
			l, known := named(links, name)
			return known && cond(l)
		}
	}
	l, _ := named(links, "eth0")
	want := []netip.Prefix{
		netip.MustParsePrefix("192.0.2.10/24"),
		netip.MustParsePrefix("2001:db8:1::10/64"), netip.MustParsePrefix("fe80::2/64"),
	}
	if !l.Up || l.Global != [2]bool{true, true} || l.Slave || l.Loopback || len(l.MAC) != 6 || !slices.Equal(l.Prefixes, want) {
		t.Errorf("eth0 is %+v", l)
	}
	if lo, _ := named(links, "lo"); !lo.Loopback || !lo.Up || lo.Global != [2]bool{} {
		t.Errorf("lo is %+v", lo)
	}

	node.Run("ip", "link", "add", "late", "type", "veth", "peer", "name", "far")
	until(t, links, "a late interface, down", is("late", func(l link.Link) bool { return !l.Up && l.Global == [2]bool{} }))
	node.Run("ip", "link", "set", "late", "up")
	node.Run("ip", "link", "set", "far", "up")
	until(t, links, "up", is("late", func(l link.Link) bool { return l.Up }))
	node.Run("ip", "link", "set", "far", "down")
	until(t, links, "no carrier", is("late", func(l link.Link) bool { return !l.Up }))
	node.Run("ip", "addr", "add", "198.51.100.7/24", "dev", "late")
	until(t, links, "an address", is("late", func(l link.Link) bool { return l.Global == [2]bool{true, false} }))
	node.Run("ip", "addr", "add", "2001:db8:9::7/64", "dev", "late", "nodad")
	until(t, links, "an IPv6 address", is("late", func(l link.Link) bool { return l.Global == [2]bool{true, true} }))
	node.Run("ip", "addr", "del", "198.51.100.7/24", "dev", "late")
	until(t, links, "no address", is("late", func(l link.Link) bool { return !l.Global[lb.IPv4] }))
	node.Run("ip", "link", "set", "late", "address", "02:00:00:00:00:07")
	until(t, links, "a MAC", is("late", func(l link.Link) bool { return l.MAC.String() == "02:00:00:00:00:07" }))
	node.Run("ip", "link", "set", "late", "down")
	node.Run("ip", "link", "set", "late", "name", "renamed")
	until(t, links, "a new name", is("renamed", func(link.Link) bool { return true }))
	if _, still := named(links, "late"); still {
		t.Error("the old name is still there")
	}
	node.Run("ip", "link", "add", "br0", "type", "bridge")
	node.Run("ip", "link", "set", "renamed", "master", "br0")
	until(t, links, "a slave", is("renamed", func(l link.Link) bool { return l.Slave }))
	node.Run("ip", "link", "set", "renamed", "nomaster")
	until(t, links, "no slave", is("renamed", func(l link.Link) bool { return !l.Slave }))
	node.Run("ip", "link", "del", "renamed")
	until(t, links, "the end", func() bool { _, still := named(links, "renamed"); return !still })
}

func TestAddressAnswersAndIsNeverASource(t *testing.T) {
	client, node := lab(t)
	links := watch(t, node)
	asker := client.Asker("c0", peer[lb.IPv4])
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) {
			if err := links.Add("eth0", vip[f]); err != nil {
				t.Fatal(err)
			}
			// The kernel joins the group for solicitations of an IPv6 address some time
			// after the address was added.
			netns.Eventually(t, time.Minute, "the kernel answers for it", func() bool {
				return asker.Answers(vip[f], own[f])
			})
			// With and without a route that leads there by a prefix.
			for _, to := range []string{peer[f].String(), pair("203.0.113.9", "2001:db8:ff::9")[f].String()} {
				if f == lb.IPv4 {
					node.Run("ip", "route", "replace", "default", "dev", "eth0")
				} else {
					node.Run("ip", "-6", "route", "replace", "default", "dev", "eth0")
				}
				if out := node.Run("ip", "route", "get", to); !strings.Contains(out, "src "+own[f].String()+" ") {
					t.Errorf("source towards %s: %s", to, out)
				}
				node.Do(func() {
					c, err := net.Dial("udp", net.JoinHostPort(to, "9"))
					if err != nil {
						t.Error(err)
						return
					}
					defer func() { _ = c.Close() }()
					if src := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); src != own[f] {
						t.Errorf("a socket towards %s has source %v", to, src)
					}
				})
			}
			out := node.Run("ip", "-d", "addr", "show", "dev", "eth0", "to", vip[f].String())
			for _, want := range []string{"noprefixroute", "deprecated", "preferred_lft 0sec"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, "forever") || strings.Contains(out, "tentative") {
				t.Error(out)
			}
			if err := links.Remove("eth0", vip[f]); err != nil {
				t.Fatal(err)
			}
			if asker.Answers(vip[f], own[f]) {
				t.Error("the kernel answers after it was removed")
			}
		})
	}
}

func TestForeignAddressesAreNotTouched(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	// The same address as ours would be, to the bit, but without the mark.
	node.Run("ip", "addr", "add", "192.0.2.55/32", "dev", "eth0", "noprefixroute", "scope", "host", "preferred_lft", "0", "valid_lft", "60")
	foreign := netip.MustParseAddr("192.0.2.55")
	before := node.Run("ip", "-o", "addr")
	for _, a := range []netip.Addr{own[0], own[1], netip.MustParseAddr("fe80::2"), foreign} {
		if err := links.Add("eth0", a); !errors.Is(err, link.ErrOccupied) {
			t.Errorf("add %v: %v", a, err)
		}
		if err := links.Remove("eth0", a); err != nil {
			t.Error(err)
		}
		missing, err := links.Renew([]link.Address{{Interface: "eth0", Addr: a}})
		if err != nil || len(missing) != 1 {
			t.Errorf("renew %v: missing %v, %v", a, missing, err)
		}
	}
	strip := func(s string) string { return strings.Split(s, "192.0.2.55")[0] } // whose lifetime runs
	if after := node.Run("ip", "-o", "addr"); strip(after) != strip(before) {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if ours := links.Ours(); len(ours) != 0 {
		t.Errorf("ours: %v", ours)
	}
}

func TestIPv6NeedsAnAddressOfTheInterfacesOwn(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	node.Run("ip", "addr", "del", "2001:db8:1::10/64", "dev", "eth0")
	until(t, links, "no address", func() bool { l, _ := named(links, "eth0"); return !l.Global[lb.IPv6] })
	if err := links.Add("eth0", vip[lb.IPv6]); !errors.Is(err, link.ErrNoGlobal) {
		t.Error(err)
	}
	if err := links.Add("eth9", vip[lb.IPv4]); !errors.Is(err, link.ErrNoInterface) {
		t.Error(err)
	}
	if err := links.Remove("eth9", vip[lb.IPv4]); err != nil {
		t.Error(err)
	}
}

func TestALostAddressIsTold(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	var all []link.Address
	for _, f := range lb.Families {
		all = append(all, link.Address{Interface: "eth0", Addr: vip[f]})
		if err := links.Add("eth0", vip[f]); err != nil {
			t.Fatal(err)
		}
	}
	// Adding twice is fine, and another agent knows ours by the mark.
	if err := links.Add("eth0", vip[lb.IPv6]); err != nil {
		t.Error(err)
	}
	successor := watch(t, node)
	for _, l := range []*link.Links{links, successor} {
		if got := l.Ours(); !slices.Equal(got, all) {
			t.Errorf("ours: %v", got)
		}
		if err := l.Add("eth0", vip[lb.IPv4]); err != nil {
			t.Error(err)
		}
	}
	if l, _ := named(links, "eth0"); len(l.Prefixes) != 3 {
		t.Errorf("ours are among the interface's own: %v", l.Prefixes)
	}
	for i, f := range lb.Families {
		node.Run("ip", "addr", "del", netip.PrefixFrom(vip[f], vip[f].BitLen()).String(), "dev", "eth0")
		until(t, links, "the loss", func() bool { return len(links.Ours()) == 1-i })
	}
	if missing, err := links.Renew(all); err != nil || !slices.Equal(missing, all) {
		t.Errorf("missing %v, %v", missing, err)
	}
	for _, f := range lb.Families {
		if err := links.Add("eth0", vip[f]); err != nil {
			t.Error(err)
		}
	}
	node.Run("ip", "link", "del", "eth0")
	until(t, links, "the end of the interface", func() bool { return len(links.Ours()) == 0 })
	if missing, err := links.Renew(all); err != nil || len(missing) != 2 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestAddressesEndUnlessTheyAreRenewed(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) {
			a := link.Address{Interface: "eth0", Addr: vip[f]}
			age := func(left time.Duration) {
				if err := links.Age("eth0", vip[f], left); err != nil {
					t.Fatal(err)
				}
			}
			left := func() time.Duration {
				out := node.Run("ip", "-o", "addr", "show", "dev", "eth0", "to", vip[f].String())
				_, out, _ = strings.Cut(out, "valid_lft ")
				d, err := time.ParseDuration(strings.TrimSuffix(strings.Fields(out)[0], "ec"))
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			if err := links.Add("eth0", vip[f]); err != nil {
				t.Fatal(err)
			}
			age(30 * time.Second)
			if d := left(); d > 30*time.Second {
				t.Fatalf("%s left; the test shows nothing", d)
			}
			if missing, err := links.Renew([]link.Address{a}); err != nil || len(missing) != 0 {
				t.Fatalf("missing %v, %v", missing, err)
			}
			if d := left(); d <= 30*time.Second || d > time.Minute {
				t.Errorf("%s left after renewal", d)
			}
			age(time.Second)
			until(t, links, "the end", func() bool { return len(links.Ours()) == 0 })
		})
	}
}

// The routers of default routes, of several next hops too, and of no other route.
func TestGateways(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	same := func(what, want string) {
		t.Helper()
		got, err := links.Gateways()
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", what, got, err, want)
		}
	}
	same("none", "[]")
	for _, args := range []string{
		"route add default via 192.0.2.1", "route add 198.51.100.0/24 via 192.0.2.2", "route add default via 192.0.2.3 table 77",
		"route add unreachable default metric 9999", "-6 route add default via 2001:db8:1::1",
	} {
		node.Run("ip", strings.Fields(args)...)
	}
	same("both families", "[192.0.2.1 2001:db8:1::1]")
	node.Run("ip", strings.Fields("route replace default nexthop via 192.0.2.1 nexthop via 192.0.2.4")...)
	node.Run("ip", strings.Fields("route add default via inet6 2001:db8:1::5 dev eth0 metric 50")...)
	same("several", "[192.0.2.1 192.0.2.4 2001:db8:1::1 2001:db8:1::5]")
}

// An interface whose other end is elsewhere, as that of a pod.
func TestCrossing(t *testing.T) {
	_, node := lab(t)
	node.Run("ip", strings.Fields("link add here type veth peer name there")...)
	links := watch(t, node)
	for name, want := range map[string]bool{"eth0": true, "here": false, "lo": false} {
		if l, ok := named(links, name); !ok || l.Crossing != want {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
