package nft_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// connect opens connections of both families and has them answered.
func (l *movedLAN) connect(network string, number int, pod string) (all []net.Conn) {
	l.Helper()
	for _, f := range lb.Families {
		for range number {
			c := l.dial(network, f)
			l.answers(c, "hello", pod)
			all = append(all, c)
		}
	}
	return all
}

// When an address moves, its connections go on at the node that has them, and new ones are the
// new node's.
func TestConnectionsGoOnAfterAMove(t *testing.T) {
	for name, bridged := range map[string]bool{"interface": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			l := newMovedLAN(t, bridged)
			tcp, udp := l.connect("tcp", 50, "pod1"), l.connect("udp", 5, "pod1")
			old := append(slices.Clone(tcp), udp...)
			to := l.nodes[1]
			l.prepare(to, to.carry)
			all := l.list(0, 1)
			if len(all) != len(old) {
				t.Fatalf("%d connections are listed, want %d", len(all), len(old))
			}
			l.must(to.carry.Update(all, nil))
			l.move(1)
			for _, c := range old {
				l.answers(c, "still there?", "pod1")
			}
			for _, c := range tcp {
				l.answers(c, strings.Repeat("x", 100_000), "pod1")
			}
			for _, c := range udp {
				l.answers(c, strings.Repeat("x", 4000), "pod1") // in fragments
			}
			for _, c := range append(l.connect("tcp", 5, "pod2"), l.connect("udp", 5, "pod2")...) {
				l.answers(c, strings.Repeat("x", 4000), "pod2")
			}
			if n := l.packets(to); n < uint64(2*len(old)) {
				t.Errorf("%d packets were carried for %d connections", n, len(old))
			}
			// People look at it.
			listed := to.Run("nft", "list", "table", "netdev", nft.CarriedName)
			if want := "map @tuples6-" + to.iface + ` device "` + to.iface + `"`; !strings.Contains(listed, want) {
				t.Errorf("nft does not show %q:\n%s", want, listed)
			}
			// The former node is dead: what it had is reset.
			l.must(to.carry.Update(nil, all))
			for _, c := range tcp {
				l.isReset(c)
			}
		})
	}
}

// Both nodes believe that the other one has the connections. Each packet is sent on once.
func TestPacketsAreCarriedOnce(t *testing.T) {
	l := newMovedLAN(t, false)
	tcp := l.connect("tcp", 5, "pod1")
	for i, n := range l.nodes {
		l.prepare(n, n.carry)
		var all []nft.Carried
		for _, c := range l.list(0, 1) {
			all = append(all, l.carried(c.Conn, 1-i, i))
		}
		l.must(n.carry.Update(all, nil))
	}
	l.move(1)
	for _, c := range tcp {
		l.answers(c, "to the second node, and to the first", "pod1")
	}
	first, second := l.packets(l.nodes[0]), l.packets(l.nodes[1])
	if first != 0 || second < uint64(len(tcp)) {
		t.Errorf("the first node has carried %d packets, want 0; the second one %d", first, second)
	}
	// Nobody has this one.
	for _, f := range lb.Families {
		c := l.dial("udp", f)
		conn := conntrack.Conn{Protocol: unix.IPPROTO_UDP, Client: addrPort(c.LocalAddr()), Service: addrPort(c.RemoteAddr())}
		for i, n := range l.nodes {
			l.must(n.carry.Update([]nft.Carried{l.carried(conn, 1-i, i)}, nil))
		}
		before := l.packets(l.nodes[1])
		const sent = 10
		for range sent {
			if _, err := c.Write([]byte("x\n")); err != nil {
				t.Fatal(err)
			}
		}
		l.answers(c, "x", "pod1")
		netns.Eventually(t, long, "all packets are carried", func() bool { return l.packets(l.nodes[1]) >= before+sent+1 })
		if first, second := l.packets(l.nodes[0]), l.packets(l.nodes[1])-before; first != 0 || second != sent+1 {
			t.Errorf("%v: the first node has carried %d packets, want 0; the second one %d, want %d", f, first, second, sent+1)
		}
	}
}

func addrPort(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

// An agent that is started anew finds what is carried, and nothing breaks meanwhile.
func TestNextAgentFindsWhatIsCarried(t *testing.T) {
	l := newMovedLAN(t, false)
	tcp := l.connect("tcp", 5, "pod1")
	to := l.nodes[1]
	l.prepare(to, to.carry)
	want := l.list(0, 1)
	l.must(to.carry.Update(want, nil))
	l.move(1)
	for _, c := range tcp {
		l.answers(c, "before", "pod1")
	}
	carried := l.packets(to)
	l.must(to.carry.Close())
	to.carry = l.carrier(to)
	for _, when := range []string{"found", "prepared", "prepared again"} {
		if got := l.kernel(to); !slices.Equal(got, sortedCarried(want)) {
			t.Errorf("%s: carried are %v, want %v", when, got, want)
		}
		for _, c := range tcp {
			l.answers(c, "after", "pod1")
		}
		l.prepare(to, to.carry)
	}
	if n := l.packets(to); n < carried+3*uint64(len(tcp)) {
		t.Errorf("%d packets were carried in all, %d of them before", n, carried)
	}
	l.must(to.carry.Update(nil, want[:1]))
	if got := l.kernel(to); !slices.Equal(got, sortedCarried(want[1:])) {
		t.Errorf("one was removed: carried are %v", got)
	}
	// The connection is on the second node, after all.
	other := want[1]
	other.Via = l.nodes[1].addr[lb.FamilyOf(other.Service.Addr())]
	l.must(to.carry.Update([]nft.Carried{other}, nil))
	if got := l.kernel(to); !slices.Contains(got, other) || len(got) != len(want)-1 {
		t.Errorf("one has another way: carried are %v", got)
	}
}

func (l *movedLAN) kernel(n *movedNode) []nft.Carried {
	l.Helper()
	got, err := n.carry.Carried()
	l.must(err)
	return sortedCarried(got)
}

func sortedCarried(all []nft.Carried) []nft.Carried {
	return slices.SortedFunc(slices.Values(all), func(a, b nft.Carried) int {
		if c := a.Client.Compare(b.Client); c != 0 {
			return c
		}
		return a.Service.Compare(b.Service)
	})
}

// What nobody renews ends.
func TestCarryingEndsByItself(t *testing.T) {
	l := newMovedLAN(t, false)
	tcp := l.connect("tcp", 1, "pod1")
	to := l.nodes[1]
	l.prepare(to, to.carry)
	all := l.list(0, 1)
	const end = 2 * time.Second
	to.carry.SetCarryTime(end)
	l.move(1)
	start := time.Now()
	netns.Eventually(t, long, "renewed for longer than it lasts", func() bool {
		l.must(to.carry.Update(all, nil))
		if got := l.kernel(to); len(got) != len(all) {
			t.Fatalf("%d of %d are carried", len(got), len(all))
		}
		return time.Since(start) > 2*end
	})
	for _, c := range tcp {
		l.answers(c, "renewed", "pod1")
	}
	netns.Eventually(t, long, "nothing is carried", func() bool { return len(l.kernel(to)) == 0 })
	for _, c := range tcp {
		l.isReset(c)
	}
	// A dead agent's connections can be added again, and removed when they are gone already.
	l.must(to.carry.Update(all[:1], all[1:]))
	if got := l.kernel(to); !slices.Equal(got, all[:1]) {
		t.Errorf("carried are %v, want %v", got, all[:1])
	}
}

// Until the new node knows which connections the former one has, it neither answers nor
// resets what it does not know, and takes new ones.
func TestSettling(t *testing.T) {
	l := newMovedLAN(t, false)
	tcp := l.connect("tcp", 3, "pod1")
	to := l.nodes[1]
	l.prepare(to, to.carry)
	for _, f := range lb.Families {
		l.must(to.carry.Settle(vip[f], time.Hour)) // as long as it may
	}
	l.move(1)
	for _, c := range tcp {
		if _, err := c.Write([]byte("lost, and sent again\n")); err != nil {
			t.Fatal(err)
		}
	}
	l.connect("tcp", 3, "pod2")
	l.must(to.carry.Update(l.list(0, 1), nil))
	for _, f := range lb.Families {
		l.must(to.carry.Settled(vip[f]))
		l.must(to.carry.Settled(vip[f]))
	}
	for _, c := range tcp {
		want := "pod1lost, and sent again\n"
		buf := make([]byte, len(want))
		_ = c.SetReadDeadline(time.Now().Add(long))
		if n, err := c.Read(buf); string(buf[:n]) != want {
			t.Errorf("answer %q, %v", buf[:n], err)
		}
	}
	if dropped := to.Run("nft", "list", "chain", "inet", nft.CarriedName, "prerouting"); strings.Contains(dropped, "packets 0") {
		t.Errorf("nothing was dropped:\n%s", dropped)
	}
	// It ends by itself: what is not known is reset.
	l.must(to.carry.Update(nil, l.list(0, 1)))
	for _, f := range lb.Families {
		l.must(to.carry.Settle(vip[f], 100*time.Millisecond))
	}
	for _, c := range tcp {
		l.isReset(c)
	}
}

// Packets that belong to no connection that is carried are treated as without our tables.
func TestUnknownPacketsAreLeftAlone(t *testing.T) {
	l := newMovedLAN(t, false)
	l.connect("tcp", 1, "pod1")
	l.connect("udp", 1, "pod1")
	to := l.nodes[1]
	unlisted := l.connect("tcp", 4, "pod1")
	l.prepare(to, to.carry)
	all := slices.DeleteFunc(l.list(0, 1), func(c nft.Carried) bool {
		return slices.ContainsFunc(unlisted, func(u net.Conn) bool { return addrPort(u.LocalAddr()) == c.Client })
	})
	if len(all) != 4 {
		t.Fatalf("%d connections are listed, want 4", len(all))
	}
	l.must(to.carry.Update(all, nil))
	l.move(1)
	// Connection tracking takes them for new ones, and the pod resets them. If it does not, they
	// are not valid, kube-proxy leaves them alone, and our guard resets them.
	for i, c := range unlisted {
		to.Run("sh", "-c", fmt.Sprintf("echo %d >/proc/sys/net/netfilter/nf_conntrack_tcp_loose", i%2))
		l.isReset(c)
	}
	for _, f := range lb.Families {
		for port := range uint16(200) {
			l.client.Do(func() {
				c, err := net.DialTimeout("tcp", netip.AddrPortFrom(vip[f], 1000+port).String(), long)
				if !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("port %d: %v, %v", 1000+port, c, err)
				}
			})
			l.client.Do(func() { sendUDP(t, vip[f], 53) })
		}
	}
	l.connect("tcp", 3, "pod2")
	l.connect("udp", 3, "pod2")
	if n := l.packets(to); n != 0 {
		t.Errorf("%d packets were carried", n)
	}
}
