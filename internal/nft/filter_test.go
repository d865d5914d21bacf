package nft_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

const (
	servicePort = 80
	nodePort    = 30080
	ssh         = 2222 // the node's own, on all addresses
	pod         = 8080 // what stands for a pod, on the node
)

// proxy is what kube-proxy does, with the hooks and priorities it has: DNAT of
// Service ports and NodePorts for others and for the node itself, and
// masquerading of what the node sends.
func proxy(f lb.Family) string {
	ip, to := "ip", own1[f].String()
	if f == lb.IPv6 {
		ip, to = "ip6", "["+to+"]"
	}
	dnat := fmt.Sprintf(`
		%[1]s daddr %[2]s tcp dport %[3]d dnat to %[4]s:%[5]d
		fib daddr type local tcp dport %[6]d dnat to %[4]s:%[5]d`, ip, vip[f], servicePort, to, pod, nodePort)
	return fmt.Sprintf(`table %s proxy {
		chain prerouting { type nat hook prerouting priority -100; %s
		}
		chain output { type nat hook output priority -100; %s
		}
	}`, ip, dnat, dnat)
}

// filtered is a lab in which vip is owned, with a proxy, and listeners on the
// node. Whoever connects to port p is told p.
func filtered(t *testing.T) *lab {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	t.Cleanup(keep(t, table, "eth0"))
	for _, f := range lb.Families {
		l.node.Run("nft", proxy(f))
	}
	for _, port := range []int{servicePort, ssh, pod, nodePort} {
		l.serve(port)
	}
	return l
}

func (l *lab) serve(port int) {
	l.node.Do(func() {
		tcp, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			l.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", ":"+strconv.Itoa(port))
		if err != nil {
			l.Fatal(err)
		}
		done := make(chan struct{}, 2)
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprint(c, port)
				_ = c.Close()
			}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				_, from, err := udp.ReadFrom(make([]byte, 16))
				if err != nil {
					return
				}
				_, _ = udp.WriteTo([]byte(strconv.Itoa(port)), from)
			}
		}()
		l.Cleanup(func() {
			_, _ = tcp.Close(), udp.Close()
			<-done
			<-done
		})
	})
}

// reach returns which port answers, or 0 if the connection is refused.
func (l *lab) reach(from *netns.NS, network string, a netip.Addr, port int) (answer int) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	var c net.Conn
	var err error
	from.Do(func() {
		c, err = new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(a, uint16(port)).String())
	})
	if err == nil {
		defer func() { _ = c.Close() }()
		deadline, _ := ctx.Deadline()
		_ = c.SetDeadline(deadline)
		if network == "udp" {
			_, err = c.Write([]byte("?"))
		}
		buf := make([]byte, 16)
		n := 0
		if err == nil {
			n, err = c.Read(buf)
		}
		if err == nil {
			answer, err = strconv.Atoi(string(buf[:n]))
		}
	}
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		l.Errorf("%s: %s to %v port %d: %v", from.Name, network, a, port, err)
	}
	return answer
}

func TestOnlyServicePortsAreReachable(t *testing.T) {
	l := filtered(t)
	eachFamily(t, func(t *testing.T, f lb.Family) {
		for _, test := range []struct {
			what    string
			from    *netns.NS
			network string
			to      netip.Addr
			port    int
			want    int
		}{
			{"a Service", l.client, "tcp", vip[f], servicePort, pod},
			{"a Service, from the node", l.node, "tcp", vip[f], servicePort, pod},
			{"the node's own port on a VIP", l.client, "tcp", vip[f], ssh, 0},
			{"the node's own port on a VIP", l.client, "udp", vip[f], ssh, 0},
			{"the node's own port on a VIP, from the node", l.node, "tcp", vip[f], ssh, 0},
			{"a port nobody has on a VIP", l.client, "tcp", vip[f], 9999, 0},
			{"a port nobody has on a VIP", l.client, "udp", vip[f], 9999, 0},
			{"a NodePort on a VIP", l.client, "tcp", vip[f], nodePort, 0},
			{"a NodePort", l.client, "tcp", own[f], nodePort, pod},
			{"a NodePort, from the node", l.node, "tcp", own[f], nodePort, pod},
			{"the node's own port", l.client, "tcp", own[f], ssh, ssh},
			{"the node's own port", l.client, "udp", own[f], ssh, ssh},
			{"the node's own port, from the node", l.node, "tcp", own[f], ssh, ssh},
		} {
			if got := l.reach(test.from, test.network, test.to, test.port); got != test.want {
				t.Errorf("%s (%s %v port %d): answer from %d, want %d", test.what, test.network, test.to, test.port, got, test.want)
			}
		}
		for _, from := range []*netns.NS{l.client, l.node} {
			if out, err := from.Try("ping", "-c", "1", "-W", "5", vip[f].String()); err != nil {
				t.Errorf("ping from the %s: %v\n%s", from.Name, err, out)
			}
		}
	})
}

// Packets may reach a node that is not the owner, by a route or an old entry in
// a neighbour table.
func TestOtherNodesVIPsAreFilteredToo(t *testing.T) {
	l := filtered(t)
	elsewhere := pair("198.51.100.1", "2001:db8:9::1")
	table := owning("eth0")
	for _, f := range lb.Families {
		table.VIPs[elsewhere[f]] = nft.VIP{Ports: http}
		l.client.Run("ip", "route", "add", elsewhere[f].String(), "via", own[f].String())
	}
	tables := l.open() // beside the one of filtered, which does not write state any more
	l.apply(tables, table)
	eachFamily(t, func(t *testing.T, f lb.Family) {
		for _, network := range []string{"tcp", "udp"} {
			if got := l.reach(l.client, network, elsewhere[f], ssh); got != 0 {
				t.Errorf("%s: answer from %d", network, got)
			}
		}
	})
}

// An address that no agent claims may be somebody else's: what is for it is left
// alone, also where kube-proxy forwards it. Answers for it are suppressed all the same.
func TestUnclaimedAddressIsLeftAlone(t *testing.T) {
	l := newLab(t)
	table := l.open()
	s := owning("eth0")
	for a, v := range s.VIPs {
		v.Unclaimed, v.Interfaces = true, nil
		s.VIPs[a] = v
	}
	for _, f := range lb.Families { // the node is a gateway, as it is to its pods
		l.client.Run("ip", "route", "add", vip[f].String(), "via", own[f].String())
		l.node.Run("nft", proxy(f))
	}
	for _, port := range []int{ssh, pod} {
		l.serve(port)
	}
	l.apply(table, s)
	eachFamily(t, func(t *testing.T, f lb.Family) {
		check := func(what string, sshTo, nodePortTo int) {
			t.Helper()
			for port, want := range map[int]int{ssh: sshTo, nodePort: nodePortTo, servicePort: pod} {
				if got := l.reach(l.client, "tcp", vip[f], port); got != want {
					t.Errorf("%s: port %d: answer from %d, want %d", what, port, got, want)
				}
			}
			if l.answers(vip, f) {
				t.Errorf("%s: answered for", what)
			}
		}
		check("unclaimed", ssh, pod)
		v := s.VIPs[vip[f]]
		v.Unclaimed = false
		if err := table.Update(map[netip.Addr]*nft.VIP{vip[f]: &v}); err != nil {
			t.Fatal(err)
		}
		check("another node claims it", 0, 0)
		v.Unclaimed = true
		if err := table.Update(map[netip.Addr]*nft.VIP{vip[f]: &v}); err != nil {
			t.Fatal(err)
		}
		check("unclaimed again", ssh, pod)
	})
}

func TestPortsFollowTheService(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.serve(ssh)
	s := owning("eth0")
	l.apply(table, s)
	l.grant(table, "eth0")
	t.Cleanup(keep(t, table, "eth0"))
	l.node.Run("nft", proxy(lb.IPv4))
	l.serve(pod)
	reach := func() int { return l.reach(l.client, "tcp", vip[lb.IPv4], servicePort) }
	if got := reach(); got != pod {
		t.Errorf("answer from %d", got)
	}
	s.VIPs[vip[lb.IPv4]] = nft.VIP{Interfaces: []string{"eth0"}, Ports: []lb.Port{{Protocol: "TCP", Number: 81}, {Protocol: "SCTP", Number: 80}}}
	l.apply(table, s)
	if got := reach(); got != 0 {
		t.Errorf("answer from %d after the port is gone", got)
	}
	if !l.answers(vip, lb.IPv4) {
		t.Error("the address is gone with the port")
	}
	if err := table.Apply(nft.State{VIPs: map[netip.Addr]nft.VIP{vip[0]: {Ports: []lb.Port{{Protocol: "ICMP", Number: 1}}}}}); err == nil {
		t.Error("a protocol without ports is accepted")
	}
}
