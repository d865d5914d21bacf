package nft_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
)

// patience is less than the time after which a client repeats its first packet.
const patience = 500 * time.Millisecond

// dialFrom connects from a port of the client and returns which port answers.
func (l *lab) dialFrom(port int, a netip.Addr, patience time.Duration) (answer int, err error) {
	l.client.Do(func() {
		d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{Port: port}}
		var c net.Conn
		if c, err = d.DialContext(l.Context(), "tcp", netip.AddrPortFrom(a, servicePort).String()); err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		var said []byte
		if said, err = io.ReadAll(c); err == nil {
			answer, err = strconv.Atoi(string(said))
		}
	})
	return answer, err
}

// dropped wants nobody to answer a first packet from a port of the client.
func (l *lab) dropped(t *testing.T, port int, a netip.Addr) {
	t.Helper()
	if answer, err := l.dialFrom(port, a, patience); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("answer from %d, %v; want none", answer, err)
	}
}

// While kube-proxy has no rule for a Service, its port does not lead to what the node itself
// has on it. When kube-proxy has one, connections are made, also from a port that was tried before.
func TestServicePortWaitsForTheProxy(t *testing.T) {
	l := filtered(t)
	eachFamily(t, func(t *testing.T, f lb.Family) {
		l.node.Run("nft", "delete", "table", map[lb.Family]string{lb.IPv4: "ip", lb.IPv6: "ip6"}[f], "proxy")
		l.dropped(t, 40000, vip[f])
		if got := l.reach(l.client, "tcp", own[f], servicePort); got != servicePort {
			t.Errorf("the node's own port: answer from %d", got)
		}
		l.node.Run("nft", proxy(f))
		if answer, err := l.dialFrom(40000, vip[f], time.Minute); answer != pod || err != nil {
			t.Errorf("then: answer from %d, %v; want %d", answer, err, pod)
		}
	})
}

// A node that had the address until a moment ago still gets packets for it. Those that kube-proxy
// has no rule for are not sent on: the kernel would remember them for two minutes.
func TestFormerNodeWaitsForTheProxy(t *testing.T) {
	l := filtered(t)
	l.node.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	former := pair("192.0.2.200", "2001:db8:1::200") // on the LAN, but on nobody's interface
	state := owning("eth0")
	for _, f := range lb.Families {
		state.VIPs[former[f]] = nft.VIP{Ports: http}
		l.client.Run("ip", "route", "add", former[f].String(), "via", own[f].String())
	}
	l.apply(l.open(), state) // beside the one of filtered, which does not write state any more
	eachFamily(t, func(t *testing.T, f lb.Family) {
		l.dropped(t, 40001, former[f])
		ip, to := "ip", netip.AddrPortFrom(own1[f], pod).String()
		if f == lb.IPv6 {
			ip = "ip6"
		}
		l.node.Run("nft", "add table "+ip+" late; add chain "+ip+" late prerouting { type nat hook prerouting priority -100; }; "+
			"add rule "+ip+" late prerouting "+ip+" daddr "+former[f].String()+" tcp dport "+strconv.Itoa(servicePort)+" dnat to "+to)
		if answer, err := l.dialFrom(40001, former[f], time.Minute); answer != pod || err != nil {
			t.Errorf("when kube-proxy has a rule: answer from %d, %v; want %d", answer, err, pod)
		}
	})
}
