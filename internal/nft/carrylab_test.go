package nft_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// movedLAN is a client and two nodes on a LAN. Each node translates the Service's ports to a
// pod of its own, as kube-proxy does, and has our tables. The address is on the first one.
type movedLAN struct {
	testing.TB
	client, lan *netns.NS
	nodes       [2]*movedNode
}

type movedNode struct {
	*netns.NS
	iface string // with the address
	addr  [2]netip.Addr
	local netip.Addr // link-local
	mac   net.HardwareAddr
	guard *nft.Table
	carry *nft.CarryTable
	pod   *netns.NS
}

// podPort is where pods listen, for TCP and UDP.
const podPort = 8080

// newMovedLAN makes it. If bridged, the second node's address is on a bridge.
func newMovedLAN(t *testing.T, bridged bool) *movedLAN {
	l := &movedLAN{TB: t, client: netns.New(t, "client"), lan: netns.New(t, "lan")}
	l.lan.Run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
	l.lan.Run("ip", "link", "set", "br0", "up")
	filterBridged(l.lan, "0")
	plug(l.client, "eth0", l.lan, "client")
	host(l.client, "eth0", 1)
	l.client.Run("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv6/conf/all/forwarding")
	for i := range l.nodes {
		n := &movedNode{NS: netns.New(t, fmt.Sprintf("node%d", i+1)), pod: netns.New(t, fmt.Sprintf("pod%d", i+1)), iface: "eth0"}
		l.nodes[i] = n
		n.addr = pair(fmt.Sprintf("192.0.2.1%d", i+1), fmt.Sprintf("2001:db8:1::1%d", i+1))
		n.local = netip.MustParseAddr(fmt.Sprintf("fe80::1%d", i+1))
		plug(n.NS, "eth0", l.lan, n.Name)
		if bridged && i == 1 {
			n.iface = "br0"
			n.Run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
			n.Run("ip", "link", "set", "eth0", "master", "br0")
			n.Run("ip", "link", "set", "br0", "up")
			filterBridged(n.NS, "1") // as kube-proxy wants it
		}
		host(n.NS, n.iface, 11+i)
		n.mac = macOf(n.NS, n.iface)
		l.proxy(n, i)
		l.open(n)
		l.must(n.guard.Grant(n.iface))
		t.Cleanup(keep(t, n.guard, n.iface))
	}
	l.move(0)
	return l
}

// filterBridged sets whether bridged packets meet rules for IP, if the kernel can do that.
func filterBridged(ns *netns.NS, value string) {
	ns.Run("sh", "-c", "for f in /proc/sys/net/bridge/bridge-nf-call-ip*; do [ ! -e $f ] || echo "+value+" >$f; done")
}

// plug connects an interface of ns to the LAN.
func plug(ns *netns.NS, iface string, lan *netns.NS, port string) {
	netns.Cable(netns.Plug{NS: ns, Interface: iface}, netns.Plug{NS: lan, Interface: port})
	ns.Run("ip", "addr", "flush", "dev", iface)
	lan.Run("ip", "addr", "flush", "dev", port)
	lan.Run("ip", "link", "set", port, "master", "br0")
}

// host gives an interface its addresses.
func host(ns *netns.NS, iface string, number int) {
	for _, a := range []string{"192.0.2.%d/24", "2001:db8:1::%d/64", "fe80::%d/64"} {
		args := []string{"addr", "add", fmt.Sprintf(a, number), "dev", iface}
		if strings.Contains(a, ":") {
			args = append(args, "nodad")
		}
		ns.Run("ip", args...)
	}
}

func macOf(ns *netns.NS, iface string) (mac net.HardwareAddr) {
	ns.Do(func() {
		if i, err := net.InterfaceByName(iface); err == nil {
			mac = i.HardwareAddr
		}
	})
	return mac
}

// proxy translates, masquerades and drops what is not valid.
func (l *movedLAN) proxy(n *movedNode, i int) {
	n.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter")
	pod := pair(fmt.Sprintf("10.0.%d.2", i+1), fmt.Sprintf("fd00:%d::2", i+1))
	gateway := pair(fmt.Sprintf("10.0.%d.1", i+1), fmt.Sprintf("fd00:%d::1", i+1))
	netns.Cable(
		netns.Plug{NS: n.NS, Interface: "pod0", Addresses: []string{gateway[0].String() + "/24", gateway[1].String() + "/64"}},
		netns.Plug{NS: n.pod, Interface: "eth0", Addresses: []string{pod[0].String() + "/24", pod[1].String() + "/64"}})
	n.Run("nft", fmt.Sprintf(`table inet proxy {
		chain prerouting { type nat hook prerouting priority -100
			ip daddr %[1]s tcp dport %[3]d dnat ip to %[4]s:%[6]d
			ip daddr %[1]s udp dport 53 dnat ip to %[4]s:%[6]d
			ip6 daddr %[2]s tcp dport %[3]d dnat ip6 to [%[5]s]:%[6]d
			ip6 daddr %[2]s udp dport 53 dnat ip6 to [%[5]s]:%[6]d
		}
		chain postrouting { type nat hook postrouting priority 100; oifname "pod0" masquerade; }
		chain forward { type filter hook forward priority 0; ct state invalid drop; }
	}`, vip[0], vip[1], servicePort, pod[0], pod[1], podPort))
	l.echo(n.pod)
}

// echo answers lines that it is told, with the pod's name in front.
func (l *movedLAN) echo(pod *netns.NS) {
	var tcp net.Listener
	var udp net.PacketConn
	var err, err2 error
	pod.Do(func() {
		tcp, err = net.Listen("tcp", fmt.Sprintf(":%d", podPort))
		udp, err2 = net.ListenPacket("udp", fmt.Sprintf(":%d", podPort))
	})
	if err := errors.Join(err, err2); err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	running := 2
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				break
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			go func() {
				defer stop()
				defer c.Close()
				for lines := bufio.NewReader(c); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, pod.Name+line); err != nil {
						return
					}
				}
			}()
		}
		done <- struct{}{}
	}()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				break
			}
			_, _ = udp.WriteTo([]byte(pod.Name+string(buf[:n])), from)
		}
		done <- struct{}{}
	}()
	l.Cleanup(func() {
		cancel()
		_, _ = tcp.Close(), udp.Close()
		for range running {
			<-done
		}
	})
}

func (l *movedLAN) open(n *movedNode) {
	guard, err := nft.OpenIn(slog.New(slog.DiscardHandler), n.FD())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = guard.Close() })
	n.guard, n.carry = guard, l.carrier(n)
}

func (l *movedLAN) carrier(n *movedNode) *nft.CarryTable {
	l.Helper()
	c, err := nft.OpenCarrierIn(n.FD())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = c.Close() })
	return c
}

func (l *movedLAN) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// move makes the address the i-th node's, and the client knows it.
func (l *movedLAN) move(i int) {
	l.Helper()
	for j, n := range l.nodes {
		s := nft.State{VIPs: map[netip.Addr]nft.VIP{}}
		for _, f := range lb.Families {
			verb := "del"
			v := nft.VIP{Ports: http}
			if i == j {
				verb, v.Interfaces = "replace", []string{n.iface}
			}
			s.VIPs[vip[f]] = v
			args := []string{"addr", verb, netip.PrefixFrom(vip[f], vip[f].BitLen()).String(), "dev", n.iface}
			if verb == "replace" && f == lb.IPv6 {
				args = append(args, "nodad", "preferred_lft", "0")
			}
			_, _ = n.Try("ip", args...)
		}
		l.must(n.guard.Apply(s))
	}
	for _, f := range lb.Families {
		l.client.Run("ip", "neigh", "replace", vip[f].String(), "lladdr", l.nodes[i].mac.String(), "dev", "eth0", "nud", "permanent")
	}
}

// prepare makes a node's tables for the interface of its address.
func (l *movedLAN) prepare(n *movedNode, c *nft.CarryTable) {
	l.Helper()
	i := nft.CarryInterface{Name: n.iface, MAC: n.mac}
	if n.iface == "br0" {
		i.Ports = []string{"eth0"}
	}
	_, err := c.Prepare([]nft.CarryInterface{i}, []net.HardwareAddr{l.nodes[0].mac, l.nodes[1].mac})
	l.must(err)
}

func isVIP(a netip.Addr) bool { return a == vip[0] || a == vip[1] }

// list returns the connections that a node has, to be carried there by the other one.
func (l *movedLAN) list(from, by int) []nft.Carried {
	l.Helper()
	conns, err := conntrack.ListIn(l.nodes[from].FD(), isVIP, nil)
	l.must(err)
	var out []nft.Carried
	for _, c := range conns {
		out = append(out, l.carried(c.Conn, from, by))
	}
	return out
}

func (l *movedLAN) carried(c conntrack.Conn, from, by int) nft.Carried {
	via := l.nodes[from].addr[0]
	if c.Service.Addr().Is6() {
		via = l.nodes[from].local
	}
	return nft.Carried{Conn: c, Via: via, Interface: l.nodes[by].iface}
}

func (l *movedLAN) packets(n *movedNode) uint64 {
	l.Helper()
	p, err := n.carry.Packets()
	l.must(err)
	return p
}

// dial connects the client to the Service.
func (l *movedLAN) dial(network string, f lb.Family) net.Conn {
	l.Helper()
	port := servicePort
	if network == "udp" {
		port = 53
	}
	var c net.Conn
	var err error
	l.client.Do(func() {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(vip[f], uint16(port)).String(), long)
	})
	l.must(err)
	l.Cleanup(func() { _ = c.Close() })
	return c
}

// who tells the Service something and returns which pod has answered. UDP is asked again if
// nothing comes.
func who(c net.Conn, message string) (string, error) {
	message += "\n"
	isUDP := c.LocalAddr().Network() == "udp"
	buf := make([]byte, len("pod0")+len(message))
	for deadline := time.Now().Add(long); ; {
		if _, err := io.WriteString(c, message); err != nil {
			return "", err
		}
		wait := deadline
		if isUDP {
			wait = time.Now().Add(time.Second)
		}
		_ = c.SetReadDeadline(wait)
		least := len(buf)
		if isUDP {
			least = 1 // a datagram is read as a whole
		}
		n, err := io.ReadAtLeast(c, buf, least)
		var timeout net.Error
		if isUDP && errors.As(err, &timeout) && timeout.Timeout() && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			return "", err
		}
		got, echoed := string(buf[:4]), string(buf[4:n])
		if echoed != message {
			return got, fmt.Errorf("%d bytes of %d come back", len(echoed), len(message))
		}
		return got, nil
	}
}

func (l *movedLAN) answers(c net.Conn, message, want string) {
	l.Helper()
	if got, err := who(c, message); err != nil || got != want {
		l.Errorf("%v of %s to %v is answered by %q (%v), want %s", c.LocalAddr(), c.LocalAddr().Network(), c.RemoteAddr(), got, err, want)
	}
}

// isReset says whether the next message is answered by a reset.
func (l *movedLAN) isReset(c net.Conn) {
	l.Helper()
	if got, err := who(c, "?"); !errors.Is(err, syscall.ECONNRESET) {
		l.Errorf("%v is not reset: %q, %v", c.LocalAddr(), got, err)
	}
}
