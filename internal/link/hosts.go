package link

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Host is another one on the segment of an interface, as far as the kernel knows.
type Host struct {
	Addr netip.Addr
	// MAC is nil if the kernel does not know it: of a gateway that was not used yet.
	MAC net.HardwareAddr
	// Gateway of a default route.
	Gateway bool
}

// neverAnswered are the states of neighbours that have no address, or did not answer.
const neverAnswered = netlink.NUD_INCOMPLETE | netlink.NUD_FAILED | netlink.NUD_NOARP | netlink.NUD_NONE

// Hosts returns the hosts that the kernel knows on the segment of each interface, by
// the interface's name: gateways first, then by address.
func (l *Links) Hosts() (map[string][]Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	neighbours, err := l.dump(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, &netlink.Ndmsg{Family: unix.AF_UNSPEC})
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	routes, err := l.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, &nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_UNSPEC}})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	hosts := map[int]map[netip.Addr]Host{}
	put := func(index int, h Host) {
		if hosts[index] == nil {
			hosts[index] = map[netip.Addr]Host{}
		}
		if h.Gateway {
			h.MAC = hosts[index][h.Addr].MAC
		}
		hosts[index][h.Addr] = h
	}
	for _, m := range neighbours {
		n, err := netlink.NeighDeserialize(m)
		if err != nil {
			return nil, fmt.Errorf("read neighbour: %w", err)
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if ok && len(n.HardwareAddr) == 6 && n.State&neverAnswered == 0 && !addr.Unmap().IsMulticast() {
			put(n.LinkIndex, Host{Addr: addr.Unmap(), MAC: n.HardwareAddr})
		}
	}
	for _, m := range routes {
		for _, g := range gateways(m) {
			put(g.index, Host{Addr: g.addr, Gateway: true})
		}
	}
	out := map[string][]Host{}
	for index, d := range l.devices {
		for _, h := range hosts[index] {
			out[d.link.Name] = append(out[d.link.Name], h)
		}
		slices.SortFunc(out[d.link.Name], func(a, b Host) int {
			if a.Gateway != b.Gateway {
				if a.Gateway {
					return -1
				}
				return 1
			}
			return a.Addr.Compare(b.Addr)
		})
	}
	return out, nil
}

type gateway struct {
	index int
	addr  netip.Addr
}

// gateways of a route, if it is a default route.
func gateways(m []byte) (out []gateway) {
	msg := nl.DeserializeRtMsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil || msg.Dst_len != 0 || msg.Type != unix.RTN_UNICAST {
		return nil
	}
	var one gateway
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.RTA_OIF:
			one.index = int(binary.NativeEndian.Uint32(attr.Value))
		case unix.RTA_GATEWAY:
			one.addr, _ = netip.AddrFromSlice(attr.Value)
		case unix.RTA_MULTIPATH:
			for rest := attr.Value; len(rest) >= unix.SizeofRtNexthop; {
				hop := nl.DeserializeRtNexthop(rest)
				size := int(hop.RtNexthop.Len)
				if size < unix.SizeofRtNexthop || size > len(rest) {
					break
				}
				inner, err := nl.ParseRouteAttr(rest[unix.SizeofRtNexthop:size])
				if err != nil {
					break
				}
				for _, attr := range inner {
					if attr.Attr.Type == unix.RTA_GATEWAY {
						if addr, ok := netip.AddrFromSlice(attr.Value); ok {
							out = append(out, gateway{int(hop.RtNexthop.Ifindex), addr})
						}
					}
				}
				rest = rest[min(len(rest), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
			}
		}
	}
	if one.addr.IsValid() && one.index != 0 {
		out = append(out, one)
	}
	return out
}
