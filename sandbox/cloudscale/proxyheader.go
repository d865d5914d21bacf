package cloudscale

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// proxyHeader is what a member is told of a connection by a pool's protocol:
// version 1 or 2 of the PROXY protocol, or nothing.
func proxyHeader(protocol string, from, at netip.AddrPort) []byte {
	switch protocol {
	case "proxy":
		family := "TCP4"
		if from.Addr().Is6() {
			family = "TCP6"
		}
		return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, from.Addr(), at.Addr(), from.Port(), at.Port())
	case "proxyv2":
		header := []byte("\r\n\r\n\x00\r\nQUIT\n")
		header = append(header, 0x21) // version 2, a connection
		if from.Addr().Is6() {
			header = append(header, 0x21) // TCP over IPv6
			header = binary.BigEndian.AppendUint16(header, 36)
		} else {
			header = append(header, 0x11) // TCP over IPv4
			header = binary.BigEndian.AppendUint16(header, 12)
		}
		header = append(header, from.Addr().AsSlice()...)
		header = append(header, at.Addr().AsSlice()...)
		header = binary.BigEndian.AppendUint16(header, from.Port())
		return binary.BigEndian.AppendUint16(header, at.Port())
	}
	return nil
}
