package cloudscale

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// check asks a member once whether it is well.
func check(ctx context.Context, m HealthMonitor, target netip.AddrPort) error {
	switch m.Type {
	case "http", "https":
		return checkHTTP(ctx, m, target)
	case "tls-hello":
		return checkTLS(ctx, target)
	case "ping":
		return checkPing(ctx, target)
	case "udp-connect":
		return checkUDP(ctx, target)
	default:
		conn, err := dialTCP(ctx, target)
		if err == nil {
			conn.Close()
		}
		return err
	}
}

// dialTCP connects for as long as the context lasts.
func dialTCP(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", target.String())
	if err != nil {
		return nil, err
	}
	return conn, limit(ctx, conn)
}

// limit ends what is done with a connection when the context does.
func limit(ctx context.Context, conn net.Conn) error {
	if deadline, has := ctx.Deadline(); has {
		return conn.SetDeadline(deadline)
	}
	return nil
}

// checkHTTP speaks the version that was asked for, which net/http's client does not.
func checkHTTP(ctx context.Context, m HealthMonitor, target netip.AddrPort) error {
	conn, err := dialTCP(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	if m.Type == "https" {
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // whoever answers is well
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secure
	}
	request := fmt.Sprintf("%s %s HTTP/%s\r\n", m.HTTP.Method, m.HTTP.URLPath, m.HTTP.Version)
	switch {
	case m.HTTP.Host != nil:
		request += "Host: " + *m.HTTP.Host + "\r\n"
	case m.HTTP.Version == "1.1":
		request += "Host: " + target.String() + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "Connection: close\r\n\r\n")); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: m.HTTP.Method})
	if err != nil {
		return err
	}
	response.Body.Close()
	if !expected(response.StatusCode, m.HTTP.ExpectedCodes) {
		return fmt.Errorf("status %d is not among %v", response.StatusCode, m.HTTP.ExpectedCodes)
	}
	return nil
}

// expected takes codes, or one range.
func expected(code int, codes []string) bool {
	if len(codes) == 1 {
		if low, high, is := strings.Cut(codes[0], "-"); is {
			return low <= strconv.Itoa(code) && strconv.Itoa(code) <= high
		}
	}
	return slices.Contains(codes, strconv.Itoa(code))
}

// checkTLS is content with any answer in TLS, be it a refusal.
func checkTLS(ctx context.Context, target netip.AddrPort) error {
	conn, err := dialTCP(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	if _, refused := errors.AsType[tls.AlertError](err); refused {
		return nil
	}
	if opErr, is := errors.AsType[*net.OpError](err); is && opErr.Op == "remote error" {
		return nil
	}
	return err
}

// checkUDP fails if the port is refused: silence is no failure.
func checkUDP(ctx context.Context, target netip.AddrPort) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", target.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := limit(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Write(nil); err != nil {
		return err
	}
	if _, err = conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// checkPing sends an echo request. Who may not do that tries whether anybody
// answers at the port, even by refusing.
func checkPing(ctx context.Context, target netip.AddrPort) error {
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if target.Addr().Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, target.Addr().String())
	if errors.Is(err, os.ErrPermission) {
		conn, err := dialTCP(ctx, target)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := limit(ctx, conn); err != nil {
		return err
	}
	id := uint16(time.Now().UnixNano())
	message := []byte{request, 0, 0, 0, byte(id >> 8), byte(id), 0, 1}
	if target.Addr().Is4() { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	if _, err := conn.Write(message); err != nil {
		return err
	}
	answer := make([]byte, 1500)
	for {
		n, _, err := conn.(*net.IPConn).ReadFrom(answer) // without the header of IPv4, as Read is not
		if err != nil {
			return err
		}
		if n >= 8 && answer[0] == reply && binary.BigEndian.Uint16(answer[4:]) == id {
			return nil
		}
	}
}

// checksum is the Internet's, of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
