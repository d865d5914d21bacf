package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// Kernel is the Network of the process's network namespace.
type Kernel struct{}

// Dial connects to a router. Packets are sent with TTL 255: that passes routers that check it
// (RFC 5082) and those some hops away. What arrives is not checked, for routers send with 1.
func (Kernel) Dial(ctx context.Context, p Peer, to netip.AddrPort, source netip.Addr) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		controlled := c.Control(func(fd uintptr) { err = prepare(int(fd), p, to) })
		return errors.Join(controlled, err)
	}}
	if source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	if zone := to.Addr().Zone(); zone != "" {
		// The net package remembers names of interfaces for a minute. One that was made anew
		// has another number.
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("find interface %s: %w", zone, err)
		}
		to = netip.AddrPortFrom(to.Addr().WithZone(strconv.Itoa(ifi.Index)), to.Port())
	}
	return d.DialContext(ctx, "tcp", to.String())
}

// internetControl is the class of routing protocols (RFC 4594), as a TOS byte.
const internetControl = 0xc0

// prepare sets a socket up before it connects.
func prepare(fd int, p Peer, to netip.AddrPort) error {
	var errs []error
	set := func(level, option, value int) {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil {
			errs = append(errs, fmt.Errorf("set socket option %d/%d: %w", level, option, err))
		}
	}
	if lb.FamilyOf(to.Addr()) == lb.IPv4 {
		set(unix.IPPROTO_IP, unix.IP_TTL, 255)
		set(unix.IPPROTO_IP, unix.IP_TOS, internetControl)
	} else {
		set(unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255)
		set(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, internetControl)
	}
	if p.Hold > 0 {
		set(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(p.Hold/time.Millisecond))
	}
	if p.VRF != "" {
		if err := unix.BindToDevice(fd, p.VRF); err != nil {
			errs = append(errs, fmt.Errorf("bind to device %s: %w", p.VRF, err))
		}
	}
	if p.Password != "" {
		if err := setPassword(fd, p.Password, to.Addr()); err != nil {
			errs = append(errs, fmt.Errorf("set the password: %w", err))
		}
	}
	return errors.Join(errs...)
}

// setPassword has the kernel sign and check all segments (RFC 2385).
func setPassword(fd int, password string, to netip.Addr) error {
	var sig unix.TCPMD5Sig
	if len(password) > len(sig.Key) {
		return fmt.Errorf("%d bytes are too many", len(password))
	}
	if to.Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sig.Addr))
		sa.Family, sa.Addr = unix.AF_INET, to.As4()
	} else {
		sa := (*unix.RawSockaddrInet6)(unsafe.Pointer(&sig.Addr))
		sa.Family, sa.Addr = unix.AF_INET6, to.As16()
	}
	sig.Keylen = uint16(copy(sig.Key[:], password))
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &sig)
}

// setUserTimeout ends a connection whose data nobody confirms for that long.
func setUserTimeout(conn net.Conn, d time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond))
		})
	}
}

// Addresses of the interface that has this one. Those of Services are not among them: they have
// the scope of the host, or count as deprecated.
func (Kernel) Addresses(local netip.Addr) ([]netip.Addr, error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	index := 0
	if ifi, err := net.InterfaceByName(local.Zone()); err == nil {
		index = ifi.Index
	}
	for _, a := range all {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && index == 0 && addr.Unmap() == local.WithZone("") {
			index = a.LinkIndex
		}
	}
	var out []netip.Addr
	for _, a := range all {
		addr, ok := netip.AddrFromSlice(a.IP)
		const unusable = unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
		if ok && a.LinkIndex == index && a.Scope == unix.RT_SCOPE_UNIVERSE && a.Flags&unusable == 0 {
			out = append(out, addr.Unmap())
		}
	}
	return out, nil
}
