package bgp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// allNodes and allRouters of a link.
var (
	allNodes   = net.ParseIP("ff02::1")
	allRouters = net.ParseIP("ff02::2")
)

// icmpLink is a Link on a real interface.
type icmpLink struct {
	conn *ipv6.PacketConn
	ifi  *net.Interface
}

// Link opens an interface. The socket is bound to it, not to an address with a zone: the net
// package remembers numbers of interfaces for a minute, and one that was made anew has another.
func (Kernel) Link(ctx context.Context, name string) (Link, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		controlled := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), name) })
		return errors.Join(controlled, err)
	}}
	raw, err := lc.ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, err
	}
	l := &icmpLink{conn: ipv6.NewPacketConn(raw), ifi: ifi}
	if err := l.prepare(); err != nil {
		_ = l.conn.Close()
		return nil, fmt.Errorf("listen for router advertisements: %w", err)
	}
	return l, nil
}

// onLink is the hop limit of what no router has forwarded (RFC 4861, section 6.1.2).
const onLink = 255

func (l *icmpLink) prepare() error {
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
	return errors.Join(
		l.conn.SetICMPFilter(&filter),
		l.conn.SetControlMessage(ipv6.FlagHopLimit, true),
		l.conn.SetMulticastHopLimit(onLink),
		l.conn.SetMulticastInterface(l.ifi),
		l.conn.SetMulticastLoopback(false),
		l.conn.JoinGroup(l.ifi, &net.IPAddr{IP: allNodes}),
	)
}

func (l *icmpLink) Hear() (netip.Addr, time.Duration, error) {
	b := make([]byte, 1500)
	for {
		n, control, from, err := l.conn.ReadFrom(b)
		if err != nil {
			return netip.Addr{}, 0, err
		}
		sender, ok := from.(*net.IPAddr)
		if !ok || control == nil || control.HopLimit != onLink {
			continue
		}
		router, ok := netip.AddrFromSlice(sender.IP)
		if lifetime, is := readAdvertisement(b[:n]); ok && is {
			return router, lifetime, nil
		}
	}
}

// readAdvertisement returns the lifetime of a router advertisement. Its options do not matter
// here, so they are not looked at.
func readAdvertisement(b []byte) (lifetime time.Duration, ok bool) {
	if len(b) < 16 || b[0] != byte(ipv6.ICMPTypeRouterAdvertisement) || b[1] != 0 {
		return 0, false
	}
	return time.Duration(binary.BigEndian.Uint16(b[6:8])) * time.Second, true
}

func (l *icmpLink) Solicit() error {
	return l.send(&ndp.RouterSolicitation{Options: l.options()}, allRouters)
}

func (l *icmpLink) Advertise() error {
	return l.send(&ndp.RouterAdvertisement{Options: l.options()}, allNodes)
}

func (l *icmpLink) Close() error { return l.conn.Close() }

func (l *icmpLink) send(m ndp.Message, to net.IP) error {
	b, err := ndp.MarshalMessage(m)
	if err != nil {
		return err
	}
	_, err = l.conn.WriteTo(b, nil, &net.IPAddr{IP: to})
	return err
}

func (l *icmpLink) options() []ndp.Option {
	if len(l.ifi.HardwareAddr) != 6 {
		return nil
	}
	return []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: l.ifi.HardwareAddr}}
}
