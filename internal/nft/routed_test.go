package nft_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

var far = pair("198.51.100.7", "2001:db8:9::7") // on no interface

func ranges(texts ...string) []netipx.IPRange {
	var out []netipx.IPRange
	for _, t := range texts {
		out = append(out, netipx.MustParseIPRange(t))
	}
	return out
}

// A packet that a router sends here, and that nobody translates, is refused and not sent back.
func TestRoutedPacketsDoNotGoBack(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, nft.State{})
	for _, args := range [][]string{
		{"sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"},
		{"ip", "route", "add", "default", "via", "192.0.3.1"}, {"ip", "-6", "route", "add", "default", "via", "2001:db8:2::1"},
	} {
		l.node.Run(args[0], args[1:]...)
	}
	l.client.Run("ip", "route", "add", "198.51.100.0/24", "via", own[0].String())
	l.client.Run("ip", "-6", "route", "add", "2001:db8:9::/64", "via", own[1].String())
	l.client.Run("nft", `table inet returned {
		counter back { }
		chain in { type filter hook prerouting priority -400; iifname "c1" ip daddr 198.51.100.0/24 counter name back
			iifname "c1" ip6 daddr 2001:db8:9::/64 counter name back
		}
	}`)
	returned := func() bool {
		return !strings.Contains(l.client.Run("nft", "list", "counter", "inet", "returned", "back"), "packets 0 ")
	}
	send := func(f lb.Family) error {
		var err error
		l.client.Do(func() {
			tcp, connected := net.DialTimeout("tcp", netip.AddrPortFrom(far[f], 9).String(), 5*time.Second)
			if connected == nil {
				_ = tcp.Close()
			}
			if !errors.Is(connected, syscall.ECONNREFUSED) {
				err = connected
				return
			}
			conn, dialed := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(far[f], 9)))
			if dialed != nil {
				err = dialed
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err = conn.Write([]byte("x")); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
		})
		return err
	}
	for _, now := range [][]netipx.IPRange{ranges("198.51.100.7-198.51.100.7", "2001:db8:9::7-2001:db8:9::7"), ranges("198.51.100.0-198.51.100.255", "2001:db8:9::-2001:db8:9::ffff")} {
		if err := table.Route(now); err != nil {
			t.Fatal(err)
		}
		eachFamily(t, func(t *testing.T, f lb.Family) {
			if err := send(f); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("want: refused, got %v", err)
			}
		})
	}
	if returned() {
		t.Error("a packet went back to the router")
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	next := l.open()
	if left, _ := next.Leftover(); !slices.Equal(left.Routed, ranges("198.51.100.0-198.51.100.255", "2001:db8:9::-2001:db8:9::ffff")) {
		t.Errorf("the next agent finds %v", left.Routed)
	}
	if err := next.Rebuild(nft.State{Routed: ranges("198.51.100.7-198.51.100.9")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := send(lb.IPv4); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after all was written again: %v", err)
	}
	if err := next.Route(nil); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, time.Minute, "packets go back without our sets", func() bool {
		_ = send(lb.IPv4)
		return returned()
	})
}

// Ranges that begin, end or touch at the ends of a family are read back.
func TestRoutedRangesAreReadBack(t *testing.T) {
	l := newLab(t)
	want := ranges("10.0.0.0-10.0.0.0", "10.0.0.2-10.0.0.9", "255.255.255.0-255.255.255.255", "2001:db8::-2001:db8::ff")
	first := l.open()
	if err := first.Route(want); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := l.open().Leftover(); !slices.Equal(left.Routed, want) {
		t.Errorf("got %v, want %v", left.Routed, want)
	}
}
