package nft_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// datagram is an IP packet of UDP without a checksum.
func datagram(from, to netip.AddrPort) []byte {
	b := new(bytes.Buffer)
	if from.Addr().Is4() {
		b.Write([]byte{0x45, 0, 0, 28, 0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0})
	} else {
		b.Write([]byte{0x60, 0, 0, 0, 0, 8, unix.IPPROTO_UDP, 64})
	}
	b.Write(from.Addr().AsSlice())
	b.Write(to.Addr().AsSlice())
	if from.Addr().Is4() {
		binary.BigEndian.PutUint16(b.Bytes()[10:], checksum(b.Bytes()))
	}
	for _, field := range []uint16{from.Port(), to.Port(), 8, 0} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	return b.Bytes()
}

// Only what comes for this node, from a host that is not a node, without a VLAN's tag, is
// carried.
func TestWhichFramesAreCarried(t *testing.T) {
	for name, bridged := range map[string]bool{"interface": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			l := newMovedLAN(t, bridged)
			to := l.nodes[1]
			l.prepare(to, to.carry)
			l.move(1)
			client := macOf(l.client, "eth0")
			l.client.Do(func() { // somebody must take the answers, or errors come back
				c, err := net.ListenPacket("udp", ":4711")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
			})
			tag := []byte{0x81, 0, 0, 7}
			want := uint64(0)
			for _, f := range lb.Families {
				from := netip.AddrPortFrom(pair("192.0.2.1", "2001:db8:1::1")[f], 4711)
				service := netip.AddrPortFrom(vip[f], 53)
				c := conntrack.Conn{Protocol: unix.IPPROTO_UDP, Client: from, Service: service}
				l.must(to.carry.Update([]nft.Carried{l.carried(c, 0, 1)}, nil))
				frame := func(to, from net.HardwareAddr, tag, packet []byte) []byte {
					protocol := []byte{0x08, 0x00}
					if f == lb.IPv6 {
						protocol = []byte{0x86, 0xdd}
					}
					return bytes.Join([][]byte{to, from, tag, protocol, packet}, nil)
				}
				good := datagram(from, service)
				for _, not := range []struct {
					what  string
					frame []byte
				}{
					{"tagged", frame(to.mac, client, tag, good)},
					{"to another host", frame(net.HardwareAddr{2, 0, 0, 0, 0, 9}, client, nil, good)},
					{"broadcast", frame(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, client, nil, good)},
					{"another port of the client", frame(to.mac, client, nil, datagram(netip.AddrPortFrom(from.Addr(), 4712), service))},
					{"another port", frame(to.mac, client, nil, datagram(from, netip.AddrPortFrom(vip[f], 54)))},
					{"another address", frame(to.mac, client, nil, datagram(from, netip.AddrPortFrom(other[f], 53)))},
					{"cut off", frame(to.mac, client, nil, good[:len(good)-8])},
					{"from a node", frame(to.mac, l.nodes[0].mac, nil, good)}, // the LAN learns from it, so it is the last one
				} {
					send(t, l.client, not.frame, frame(to.mac, client, nil, good))
					want++
					netns.Eventually(t, long, "one is carried", func() bool { return l.packets(to) >= want })
					if n := l.packets(to); n != want {
						t.Errorf("%v, %s: %d packets were carried, want %d", f, not.what, n, want)
						want = n
					}
				}
			}
		})
	}
}

// send sends frames, which arrive in that order: virtual cables keep it only on one processor.
func send(t *testing.T, ns *netns.NS, frames ...[]byte) {
	t.Helper()
	var err error
	ns.Do(func() {
		var before, one unix.CPUSet
		if err = unix.SchedGetaffinity(0, &before); err != nil {
			return
		}
		for cpu := 0; one.Count() == 0; cpu++ {
			if before.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		if err = unix.SchedSetaffinity(0, &one); err != nil {
			return
		}
		defer func() { _ = unix.SchedSetaffinity(0, &before) }()
		var ifi *net.Interface
		if ifi, err = net.InterfaceByName("eth0"); err != nil {
			return
		}
		var c *packet.Conn
		if c, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_ALL, nil); err != nil {
			return
		}
		defer c.Close()
		for _, frame := range frames {
			if _, err = c.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]}); err != nil {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A router on the way to the client says that a packet was too big: the pod that sent it
// learns that.
func TestErrorsAreCarried(t *testing.T) {
	l := newMovedLAN(t, false)
	to := l.nodes[1]
	l.prepare(to, to.carry)
	udp := l.connect("udp", 1, "pod1")
	l.must(to.carry.Update(l.list(0, 1), nil))
	l.move(1)
	for f, c := range udp {
		client, service := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())
		inner := datagram(service, client)
		network, message, gateway := "ip4:icmp", []byte{3, 4, 0, 0, 0, 0, 1300 >> 8, 1300 & 0xff}, "10.0.1.1"
		if lb.Family(f) == lb.IPv6 {
			network, message, gateway = "ip6:ipv6-icmp", []byte{2, 0, 0, 0, 0, 0, 1300 >> 8, 1300 & 0xff}, "fd00:1::1"
		}
		message = append(message, inner...)
		if lb.Family(f) == lb.IPv4 {
			binary.BigEndian.PutUint16(message[2:], checksum(message))
		}
		mtu := func() string { return l.nodes[0].pod.Run("ip", "route", "get", gateway) }
		if strings.Contains(mtu(), "mtu 1300") {
			t.Fatalf("%v: known already: %s", lb.Family(f), mtu())
		}
		before := l.packets(to)
		l.client.Do(func() {
			raw, err := net.Dial(network, service.Addr().String())
			if err == nil {
				_, err = raw.Write(message)
				_ = raw.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
		netns.Eventually(t, long, fmt.Sprintf("the pod learns of it (%v)", lb.Family(f)), func() bool { return strings.Contains(mtu(), "mtu 1300") })
		if n := l.packets(to) - before; n != 1 {
			t.Errorf("%v: %d packets were carried", lb.Family(f), n)
		}
	}
}

// checksum is that of the Internet (RFC 1071).
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
