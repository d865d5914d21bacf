package bfd

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/test/kit/netns"
)

// A router in between makes it a session of several hops, on another port. Packets that come
// from farther away than the profile admits do not count.
func TestMultihop(t *testing.T) {
	node, middle, far := netns.New(t, "node"), netns.New(t, "middle"), netns.New(t, "far")
	netns.Cable(netns.Plug{NS: node, Interface: "eth0", Addresses: []string{"192.0.2.11/24", "2001:db8:1::11/64"}},
		netns.Plug{NS: middle, Interface: "eth0", Addresses: []string{"192.0.2.254/24", "2001:db8:1::254/64"}})
	netns.Cable(netns.Plug{NS: far, Interface: "eth0", Addresses: []string{"198.51.100.1/24", "2001:db8:2::1/64"}},
		netns.Plug{NS: middle, Interface: "eth1", Addresses: []string{"198.51.100.254/24", "2001:db8:2::254/64"}})
	middle.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for ns, via := range map[*netns.NS][2]string{node: {"192.0.2.254", "2001:db8:1::254"}, far: {"198.51.100.254", "2001:db8:2::254"}} {
		ns.Run("ip", "route", "add", "default", "via", via[0])
		ns.Run("ip", "route", "add", "default", "via", via[1])
	}
	startFRR(t, far, "bfd\n profile fast\n  receive-interval 50\n  transmit-interval 50\n  minimum-ttl 1\n !\n"+
		" peer 192.0.2.11 multihop local-address 198.51.100.1\n  profile fast\n !\n"+
		" peer 2001:db8:1::11 multihop local-address 2001:db8:2::1\n  profile fast\n !\n")
	s := speakerIn(t, node)
	sessions := func(minTTL uint8) map[Peer]Profile {
		p := fastProfile
		p.MinTTL = minTTL
		four, six := labPeer("192.0.2.11", "198.51.100.1"), labPeer("2001:db8:1::11", "2001:db8:2::1")
		four.Multihop, six.Multihop = true, true
		return map[Peer]Profile{four: p, six: p}
	}
	s.Set(sessions(254))
	eventually(t, "both are up", s, allUp(2))
	s.Set(sessions(255))
	eventually(t, "one hop too many", s, func(all []Status) bool {
		for _, p := range all {
			if p.State != Down || !strings.Contains(p.Reason.Text, "TTL or hop limit is too low") {
				return false
			}
		}
		return true
	})
}

// Of another daemon on the node nothing is taken away: its session stays up, ours has a
// reason.
func TestBesideAnotherDaemon(t *testing.T) {
	l := newLab(t)
	l.routers(t)
	other := startFRR(t, l.node, "bfd\n profile fast\n  receive-interval 500\n  transmit-interval 500\n !\n peer 192.0.2.1 local-address 192.0.2.11 interface eth0\n  profile fast\n !\n")
	up := func() bool { return other.peers(t)["192.0.2.1"] == "up" }
	netns.Eventually(t, patient, "the other daemon's session is up", up)
	before := other.peer(t, "192.0.2.1", "show bfd peers counters json")
	s := speakerIn(t, l.node)
	s.Set(all(fastProfile))
	eventually(t, "all say that the port is taken", s, func(all []Status) bool {
		for _, p := range all {
			if p.State != Down || p.Reason.Code != BFDPortTaken {
				return false
			}
		}
		return len(all) == 6
	})
	if now := other.peer(t, "192.0.2.1", "show bfd peers counters json"); !up() || now.SessionDown != before.SessionDown {
		t.Errorf("the other daemon's session: %+v, before %+v", now, before)
	}
}

// Packets that claim to be the router's, but come from farther away, change nothing.
func TestForgedPacket(t *testing.T) {
	node, evil := netns.New(t, "node"), netns.New(t, "evil")
	netns.Cable(netns.Plug{NS: node, Interface: "eth0", Addresses: []string{"192.0.2.11/24", "2001:db8::11/64"}},
		netns.Plug{NS: evil, Interface: "eth0", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64", "192.0.2.3/24", "2001:db8::3/64"}})
	s := speakerIn(t, node)
	four, six := labPeer("192.0.2.11", "192.0.2.1"), labPeer("2001:db8::11", "2001:db8::1")
	s.Set(map[Peer]Profile{four: fastProfile, six: fastProfile})
	// send sends one packet in state Init, which would bring the session up.
	send := func(from netip.Addr, to Peer, ttl int) {
		t.Helper()
		forged := Packet{State: Init, Multiplier: 3, Mine: 9, Yours: s.sessions[to].mine(), DesiredTx: time.Second, RequiredRx: time.Second}
		var conn *net.UDPConn
		var err error
		evil.Do(func() {
			conn, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Local, 3784)))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		raw, err := conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			if from.Is4() {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl)
			} else {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(forged.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both listen", s, func([]Status) bool {
		s := s.Statuses()
		return s[0].Sent > 0 && s[1].Sent > 0
	})
	for _, p := range []Peer{four, six} {
		stranger := netip.MustParseAddr("192.0.2.3")
		if p == six {
			stranger = netip.MustParseAddr("2001:db8::3")
		}
		send(stranger, p, 255)
		send(p.Remote, p, 254)
		eventually(t, "the second was discarded", s, func([]Status) bool {
			return strings.Contains(statusOf(t, s, p).Reason.Text, "TTL or hop limit is too low")
		})
		if got := statusOf(t, s, p); got.State != Down || got.Received != 0 {
			t.Errorf("%+v", got)
		}
		send(p.Remote, p, 255)
		eventually(t, "a true one counts", s, func([]Status) bool { return statusOf(t, s, p).Ups == 1 })
	}
}

// An agent hands its sessions to the next one: with sockets, over a unix socket as between
// processes, and without. The routers notice nothing.
func TestRealHandover(t *testing.T) {
	l := newLab(t)
	l.routers(t)
	s := speakerIn(t, l.node)
	s.Set(all(calm))
	eventually(t, "all sessions are up", s, allUp(6))
	before := map[string]frrPeer{}
	for _, p := range l.frr.show(t, "show bfd peers counters json") {
		before[p.Peer] = p
	}
	received := statusOf(t, s, labPeer("192.0.2.11", "192.0.2.1")).Received
	for _, withSockets := range []bool{true, false, true} {
		frozen := s.Freeze()
		if n := len(frozen.Descriptors); n != 9 { // three ports, six senders
			t.Errorf("%d descriptors", n)
		}
		if !withSockets {
			frozen.Close()
		}
		s = Continue(context.Background(), Options{Wire: wireIn(l.node)}, passed(t, frozen))
		t.Cleanup(func() { closeNow(s) })
		s.Set(all(calm))
		eventually(t, "packets of all peers count", s, func(all []Status) bool {
			for _, p := range all {
				if p.State != Up || p.Received < received+5 {
					return false
				}
			}
			return true
		})
		received = statusOf(t, s, labPeer("192.0.2.11", "192.0.2.1")).Received
	}
	for _, p := range s.Statuses() {
		if p.Ups != 1 || p.Downs != 0 {
			t.Errorf("%+v", p)
		}
	}
	for _, now := range l.frr.show(t, "show bfd peers counters json") {
		if was := before[now.Peer]; now.SessionUp != was.SessionUp || now.SessionDown != was.SessionDown {
			t.Errorf("FRR noticed: %+v, before %+v", now, was)
		}
	}
}

// passed sends what was frozen through a unix socket.
func passed(t *testing.T, f Frozen) Frozen {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := [2]*os.File{os.NewFile(uintptr(pair[0]), "old"), os.NewFile(uintptr(pair[1]), "new")}
	defer func() { _, _ = ends[0].Close(), ends[1].Close() }()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(pair[0], text, unix.UnixRights(f.Descriptors...), nil, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	b, control := make([]byte, 1<<16), make([]byte, 4096)
	n, m, _, _, err := unix.Recvmsg(pair[1], b, control, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out Frozen
	if err := json.Unmarshal(b[:n], &out); err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:m])
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			t.Fatal(err)
		}
		out.Descriptors = append(out.Descriptors, fds...)
	}
	return out
}
