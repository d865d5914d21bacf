package client

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"fairlead.io/sandbox"
)

// Listener hears of questions for addresses on the LAN, and of the answers, of both at
// the same time.
type Listener interface {
	Asked(addr netip.Addr, at time.Time)
	Answered(addr netip.Addr, node string, at time.Time)
}

// The questions come from a host that does not exist, with an own hardware address on the
// client host's cable, so that the answers teach the client host's kernel nothing.
var (
	everybody  = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	askerMAC   = net.HardwareAddr{0x02, 0, 0, 0, 0, 98}
	askerAddr  = netip.MustParseAddr("10.77.0.98")
	askerAddr6 = netip.MustParseAddr("fe80::98")
)

const (
	ethernetLen = 14
	ipv6Len     = 40
	icmpv6      = 58
	hopLimit    = 255 // RFC 4861 §7.1: a lower one does not count
)

// advertisements are frames with a neighbour advertisement, of those that a socket for
// IPv6 gets.
var advertisements = []bpf.Instruction{
	bpf.LoadAbsolute{Off: ethernetLen + 6, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: icmpv6, SkipTrue: 3},
	bpf.LoadAbsolute{Off: ethernetLen + ipv6Len, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 136, SkipTrue: 1},
	bpf.RetConstant{Val: 1 << 16},
	bpf.RetConstant{Val: 0},
}

// questions are asked on a cable.
type questions struct {
	arp, nd *packet.Conn
	tell    Listener
	frames  map[netip.Addr][]byte // by the address that each asks for
}

// Question asks for addresses by ARP and neighbour solicitations, for each every so
// often, until stop is called.
func Question(c *sandbox.Cluster, every time.Duration, tell Listener, addrs ...netip.Addr) (stop func(), err error) {
	q := &questions{tell: tell, frames: map[netip.Addr][]byte{}}
	filter, err := bpf.Assemble(advertisements)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if q.frames[addr], err = question(addr); err != nil {
			return nil, err
		}
	}
	err = c.In(sandbox.ClientHost, func() error {
		ifi, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		if q.arp, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_ARP, nil); err != nil {
			return err
		}
		q.nd, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_IPV6, &packet.Config{Filter: filter})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for %s on the LAN: %w", addrs, err)
	}
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { q.ask(every, addrs, end) })
	running.Go(q.hearARP)
	running.Go(q.hearND)
	return func() {
		close(end)
		_, _ = q.arp.Close(), q.nd.Close()
		running.Wait()
	}, nil
}

func (q *questions) ask(every time.Duration, addrs []netip.Addr, end <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		for _, addr := range addrs {
			by := q.arp
			if addr.Is6() {
				by = q.nd
			}
			q.tell.Asked(addr, time.Now())
			frame := q.frames[addr]
			_, _ = by.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]})
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// question is a frame that asks for an address.
func question(addr netip.Addr) ([]byte, error) {
	b := new(bytes.Buffer)
	if addr.Is4() {
		b.Write(everybody)
		b.Write(askerMAC)
		for _, field := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP, 0x0604, 1} {
			_ = binary.Write(b, binary.BigEndian, field)
		}
		b.Write(askerMAC)
		b.Write(askerAddr.AsSlice())
		b.Write(make([]byte, 6))
		b.Write(addr.AsSlice())
		return b.Bytes(), nil
	}
	group, err := ndp.SolicitedNodeMulticast(addr)
	if err != nil {
		return nil, err
	}
	message, err := ndp.MarshalMessageChecksum(&ndp.NeighborSolicitation{TargetAddress: addr,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: askerMAC}}}, askerAddr6, group)
	if err != nil {
		return nil, err
	}
	to := group.As16()
	b.Write([]byte{0x33, 0x33})
	b.Write(to[12:])
	b.Write(askerMAC)
	for _, field := range []uint16{unix.ETH_P_IPV6, 0x6000, 0, uint16(len(message)), icmpv6<<8 | hopLimit} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	b.Write(askerAddr6.AsSlice())
	b.Write(to[:])
	b.Write(message)
	return b.Bytes(), nil
}

// answered tells of an answer, unless somebody else has asked in the same way.
func (q *questions) answered(addr netip.Addr, from net.HardwareAddr) {
	if q.frames[addr] != nil {
		q.tell.Answered(addr, nodeOf(from), time.Now())
	}
}

// hearARP tells of replies to the asker; announcements are to all.
func (q *questions) hearARP() {
	b := make([]byte, 128)
	for {
		n, _, err := q.arp.ReadFrom(b)
		if err != nil {
			return
		}
		if n >= 42 && b[21] == 2 && slices.Equal(net.HardwareAddr(b[32:38]), askerMAC) {
			q.answered(netip.AddrFrom4([4]byte(b[28:32])), b[22:28])
		}
	}
}

// hearND tells of solicited advertisements to the asker.
func (q *questions) hearND() {
	b := make([]byte, 1514)
	for {
		n, _, err := q.nd.ReadFrom(b)
		if err != nil {
			return
		}
		if n < ethernetLen+ipv6Len || !slices.Equal(net.HardwareAddr(b[:6]), askerMAC) {
			continue
		}
		message, err := ndp.ParseMessage(b[ethernetLen+ipv6Len : n])
		if err != nil {
			continue
		}
		if na, is := message.(*ndp.NeighborAdvertisement); is && na.Solicited {
			q.answered(na.TargetAddress, b[6:12])
		}
	}
}
