package member_test

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/member"
	"fairlead.io/internal/member/membersim"
)

// These tests run on real sockets, each member on an address of its own.

var (
	vip   = netip.MustParseAddr("192.0.2.1")
	vip6  = netip.MustParseAddr("2001:db8::1")
	addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func start(t *testing.T, name, address string) *member.Group {
	t.Helper()
	return startWith(t, member.Config{Name: name, Bind: netip.AddrPortFrom(netip.MustParseAddr(address), 0), Key: membersim.Key})
}

func startWith(t *testing.T, c member.Config) *member.Group {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler) // a timer of memberlist's may end after the test, and log
	g, err := member.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func join(t *testing.T, g *member.Group, others ...*member.Group) {
	t.Helper()
	var to []netip.AddrPort
	for _, o := range others {
		to = append(to, o.Addr())
	}
	if _, err := g.Join(t.Context(), to); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for the group to change until something holds.
func eventually(t *testing.T, g *member.Group, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !holds() {
		select {
		case <-g.Changed():
		case <-limit.C:
			t.Fatalf("%s: not within a minute; members %v, claims %v", what, names(g), g.Claims())
		}
	}
}

func names(g *member.Group) (all []string) {
	for _, m := range g.Members() {
		all = append(all, m.Name)
	}
	return all
}

func has(g *member.Group, want ...string) func() bool {
	return func() bool { return slices.Equal(names(g), want) }
}

func trio(t *testing.T) (a, b, c *member.Group) {
	t.Helper()
	a, b, c = start(t, "a", "127.0.7.1"), start(t, "b", "127.0.7.2"), start(t, "c", "127.0.7.3")
	join(t, b, a)
	join(t, c, a)
	for _, g := range []*member.Group{a, b, c} {
		eventually(t, g, "all find each other", has(g, "a", "b", "c"))
	}
	return a, b, c
}

func TestMembersLearnMetaAndClaims(t *testing.T) {
	a, b, c := trio(t)
	meta := member.Meta{
		Eligible: true, Links: []member.Link{{Name: "eth0", V4: true}, {Name: "eth1", V4: true, V6: true}},
		MACs: []net.HardwareAddr{{2, 0, 0, 0, 0, 1}},
	}
	a.SetMeta(meta)
	b.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 3, Up: true}, {Key: member.Addr(vip6), Epoch: 1}, {Key: member.Lease("IPv4 web"), Epoch: 2, Up: true}})
	c.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 4}})
	want := map[member.Key][]member.Claim{
		member.Addr(vip):         {{Key: member.Addr(vip), Node: "c", Epoch: 4}, {Key: member.Addr(vip), Node: "b", Epoch: 3, Up: true}},
		member.Addr(vip6):        {{Key: member.Addr(vip6), Node: "b", Epoch: 1}},
		member.Lease("IPv4 web"): {{Key: member.Lease("IPv4 web"), Node: "b", Epoch: 2, Up: true}},
	}
	for _, g := range []*member.Group{a, b, c} {
		eventually(t, g, "meta", func() bool { return cmp.Equal(g.Members()[0].Meta, meta) })
		eventually(t, g, "claims", func() bool { return cmp.Equal(g.Claims(), want, addrs) })
		eventually(t, g, "synced", g.Synced)
	}
	b.SetClaims([]member.Claim{{Key: member.Addr(vip6), Epoch: 1, Up: true}})
	want = map[member.Key][]member.Claim{
		member.Addr(vip):  {{Key: member.Addr(vip), Node: "c", Epoch: 4}},
		member.Addr(vip6): {{Key: member.Addr(vip6), Node: "b", Epoch: 1, Up: true}},
	}
	for _, g := range []*member.Group{a, b, c} {
		eventually(t, g, "changed claims", func() bool { return cmp.Equal(g.Claims(), want, addrs) })
	}
}

func TestDeathAndLeaveAreToldApart(t *testing.T) {
	a, b, c := trio(t)
	b.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1, Up: true}})
	eventually(t, a, "claim", func() bool { return len(a.Claims()[member.Addr(vip)]) == 1 })
	b.Close()
	eventually(t, a, "death of b", has(a, "a", "c"))
	if _, died := a.Died("b"); !died {
		t.Error("b is not said to have died")
	}
	if claims := a.Claims()[member.Addr(vip)]; len(claims) != 1 || claims[0].Standing != member.Orphaned || claims[0].Node != "b" {
		t.Errorf("the last owner is not remembered: %v", claims)
	}
	if err := c.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
	eventually(t, a, "leave of c", has(a, "a"))
	eventually(t, a, "how c went", func() bool { _, left := a.Left("c"); return left })
	if _, died := a.Died("c"); died {
		t.Error("c is said to have died")
	}
}

// An agent is followed by another one at the same address, which can have the
// port as soon as the first has closed. (What becomes of its claims meanwhile is
// tested in virtual time: two seconds may be too short on a busy machine.)
func TestSuccessor(t *testing.T) {
	a, b, _ := trio(t)
	b.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 5, Up: true}, {Key: member.Addr(vip6), Epoch: 5, Up: true}})
	eventually(t, a, "claims", func() bool { return len(a.Claims()) == 2 })
	eventually(t, a, "synced", a.Synced)

	second := member.Config{Name: "b", Bind: b.Addr(), Key: membersim.Key}
	if _, err := member.Start(second); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("a second agent beside the first: want EADDRINUSE, got %v", err)
	}
	b.Close()
	next := startWith(t, second)
	join(t, next, a)
	eventually(t, next, "synced after an exchange with one who is", next.Synced)
	next.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 5, Up: true}})
	eventually(t, a, "claims of the successor", func() bool {
		c := a.Claims()
		return len(c) == 1 && len(c[member.Addr(vip)]) == 1 && c[member.Addr(vip)][0].Standing == member.Held
	})
}

func TestAnotherKeyIsRefused(t *testing.T) {
	a := start(t, "a", "127.0.7.1")
	key := slices.Repeat([]byte("x"), 32)
	b := startWith(t, member.Config{Name: "b", Bind: netip.MustParseAddrPort("127.0.7.2:0"), Key: key})
	if n, err := b.Join(t.Context(), []netip.AddrPort{a.Addr()}); n != 0 || err == nil {
		t.Errorf("joined %d, error %v", n, err)
	}
	if n, err := a.Join(t.Context(), []netip.AddrPort{b.Addr()}); n != 0 || err == nil {
		t.Errorf("joined %d, error %v", n, err)
	}
	if !has(a, "a")() || !has(b, "b")() {
		t.Errorf("members %v and %v", names(a), names(b))
	}
}

func TestStartRefuses(t *testing.T) {
	good := member.Config{Name: "a", Bind: netip.MustParseAddrPort("127.0.7.1:0"), Key: membersim.Key}
	for want, change := range map[string]func(*member.Config){
		"name":    func(c *member.Config) { c.Name = "" },
		"key":     func(c *member.Config) { c.Key = nil },
		"32":      func(c *member.Config) { c.Key = c.Key[:16] },
		"address": func(c *member.Config) { c.Bind = netip.MustParseAddrPort("0.0.0.0:7947") },
		"assign":  func(c *member.Config) { c.Bind = netip.MustParseAddrPort("192.0.2.77:7947") },
	} {
		c := good
		change(&c)
		g, err := member.Start(c)
		if err == nil {
			g.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestJoinPassesOverMembers(t *testing.T) {
	a, b, c := trio(t)
	all := []netip.AddrPort{a.Addr(), b.Addr(), c.Addr()}
	if n, err := a.Join(t.Context(), all); n != 0 || err != nil {
		t.Errorf("joined %d, error %v", n, err)
	}
	nobody := netip.AddrPortFrom(netip.MustParseAddr("127.0.7.9"), a.Addr().Port())
	if n, err := a.Join(t.Context(), append(all, nobody)); n != 0 || err == nil {
		t.Errorf("joined %d, error %v", n, err)
	}
}
