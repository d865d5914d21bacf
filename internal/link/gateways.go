package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Gateways returns the routers of the default routes in the main routing table, of
// both families, in order.
func (l *Links) Gateways() ([]netip.Addr, error) {
	var out []netip.Addr
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		request := nl.NewRtMsg()
		request.Family = family
		messages, err := l.dumpFrom(l.routes, unix.RTM_GETROUTE, unix.RTM_NEWROUTE, request)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, m := range messages {
			out = append(out, parseGateways(m)...)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// parseGateways returns the routers in a message about a route, if that is a default
// route of the main table.
func parseGateways(m []byte) []netip.Addr {
	if len(m) < unix.SizeofRtMsg {
		return nil
	}
	msg := nl.DeserializeRtMsg(m)
	if msg.Dst_len != 0 || msg.Table != unix.RT_TABLE_MAIN || msg.Type != unix.RTN_UNICAST {
		return nil
	}
	return routers(m[unix.SizeofRtMsg:])
}

// routers returns those that attributes of a route name.
func routers(attributes []byte) (out []netip.Addr) {
	attrs, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return nil
	}
	for _, attr := range attrs {
		value := attr.Value
		switch attr.Attr.Type {
		case unix.RTA_GATEWAY:
		case unix.RTA_VIA: // of the other family, which comes first
			value = value[min(2, len(value)):]
		case unix.RTA_MULTIPATH:
			out = append(out, nextHops(value)...)
			continue
		default:
			continue
		}
		if addr, ok := netip.AddrFromSlice(value); ok && !addr.IsUnspecified() {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// nextHops returns the routers of a route with several: each has a header, which
// begins with its length, and attributes.
func nextHops(value []byte) (out []netip.Addr) {
	for len(value) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(value))
		if size < unix.SizeofRtNexthop || size > len(value) {
			break
		}
		out = append(out, routers(value[unix.SizeofRtNexthop:size])...)
		value = value[min((size+3)&^3, len(value)):]
	}
	return out
}
