package dhcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// wires has what differs between the families below DHCP itself.
var wires = [len(lb.Families)]struct {
	etherType  int
	client     uint16
	servers    netip.AddrPort
	serversMAC [6]byte
	// transaction numbers are at the beginning of the message.
	at, size int
}{
	lb.IPv4: {typeIPv4, 68, netip.MustParseAddrPort("255.255.255.255:67"), [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 4, 4},
	lb.IPv6: {typeIPv6, 546, netip.MustParseAddrPort("[ff02::1:2]:547"), [6]byte{0x33, 0x33, 0, 1, 0, 2}, 1, 3},
}

// Port is a Transport on one Ethernet-like interface, for all clients there. It
// works while the interface has no address at all.
type Port struct {
	name    string
	index   int
	sockets [len(lb.Families)]*packet.Conn
	kernel  *netlink.Handle

	mu       sync.Mutex
	waiting  [len(lb.Families)]map[uint32]chan Heard
	done     chan struct{}
	shutdown func() error
	readers  sync.WaitGroup
}

// Open opens a port on the interface of that name in the network namespace of
// the calling thread.
func Open(name string) (*Port, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("open DHCP port on %s: %w", name, err)
	}
	p := &Port{name: name, index: ifi.Index, done: make(chan struct{})}
	p.shutdown = sync.OnceValue(p.end)
	if p.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open DHCP port on %s: %w", name, err)
	}
	for _, f := range lb.Families {
		p.waiting[f] = map[uint32]chan Heard{}
		program, err := filter(f)
		if err == nil {
			p.sockets[f], err = packet.Listen(ifi, packet.Raw, wires[f].etherType, &packet.Config{Filter: program})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open DHCP port on %s for %s: %w", name, f, err), p.closeSockets())
		}
	}
	for _, f := range lb.Families {
		p.readers.Go(func() { p.read(f) })
	}
	return p, nil
}

// Close ends the port; clients hear nothing any more.
func (p *Port) Close() error { return p.shutdown() }

func (p *Port) end() error {
	close(p.done)
	err := p.closeSockets()
	p.readers.Wait()
	return err
}

func (p *Port) closeSockets() error {
	p.kernel.Close()
	var errs []error
	for _, c := range p.sockets {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// filter lets through UDP to the port of DHCP clients: IPv4 with any header
// length, IPv6 without extension headers.
func filter(f lb.Family) ([]bpf.RawInstruction, error) {
	protocol, offset := uint32(ethernetLen+9), bpf.Instruction(bpf.LoadMemShift{Off: ethernetLen})
	if f == lb.IPv6 {
		protocol, offset = ethernetLen+6, bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6Len}
	}
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: protocol, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: udpProtocol, SkipTrue: 4},
		offset,
		bpf.LoadIndirect{Off: ethernetLen + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(wires[f].client), SkipTrue: 1},
		bpf.RetConstant{Val: 0xffff},
		bpf.RetConstant{Val: 0},
	})
}

// Listen implements Transport.
func (p *Port) Listen(f lb.Family, transaction uint32) (<-chan Heard, func()) {
	c := make(chan Heard, 8)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[f][transaction] = c
	return c, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting[f], transaction)
	}
}

// Send implements Transport.
func (p *Port) Send(f lb.Family, message []byte, to *Unicast) error {
	link, err := p.kernel.LinkByIndex(p.index)
	if err != nil {
		return fmt.Errorf("send DHCP on %s: %w", p.name, err)
	}
	own := link.Attrs().HardwareAddr
	if len(own) != 6 {
		return fmt.Errorf("send DHCP on %s: not an Ethernet interface", p.name)
	}
	w := &wires[f]
	d := datagram{toMAC: w.serversMAC, fromMAC: [6]byte(own), to: w.servers, payload: message}
	from := netip.IPv4Unspecified()
	if f == lb.IPv6 {
		if from, err = p.linkLocal(link); err != nil {
			return fmt.Errorf("send DHCP on %s: %w", p.name, err)
		}
	}
	if to != nil && len(to.MAC) == 6 {
		from, d.to, d.toMAC = to.From, netip.AddrPortFrom(to.To, w.servers.Port()), [6]byte(to.MAC)
	}
	d.from = netip.AddrPortFrom(from, w.client)
	if _, err := p.sockets[f].WriteTo(d.frame(), &packet.Addr{HardwareAddr: d.toMAC[:]}); err != nil {
		return fmt.Errorf("send DHCP on %s: %w", p.name, err)
	}
	return nil
}

// linkLocal returns the interface's own address, to which servers answer.
func (p *Port) linkLocal(link netlink.Link) (netip.Addr, error) {
	all, err := p.kernel.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, own := range all {
		if a, ok := netip.AddrFromSlice(own.IP); ok && a.IsLinkLocalUnicast() && own.Flags&unix.IFA_F_TENTATIVE == 0 {
			return a, nil
		}
	}
	return netip.Addr{}, errors.New("the interface has no link-local IPv6 address")
}

func (p *Port) read(f lb.Family) {
	frame := make([]byte, 0x10000)
	for {
		n, _, err := p.sockets[f].ReadFrom(frame)
		switch {
		case err == nil:
			if d, ok := decode(frame[:n]); ok {
				p.deliver(f, &d)
			}
			continue
		case errors.Is(err, unix.ENETDOWN): // reported once; it goes on when the link is up
			continue
		}
		select {
		case <-p.done:
			return
		case <-time.After(50 * time.Millisecond): // never seen, but must not spin
		}
	}
}

// deliver gives a message to the client whose transaction it is. One that does
// not listen misses it.
func (p *Port) deliver(f lb.Family, d *datagram) {
	w := &wires[f]
	if len(d.payload) < w.at+w.size {
		return
	}
	var number [4]byte
	copy(number[4-w.size:], d.payload[w.at:w.at+w.size])
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.waiting[f][binary.BigEndian.Uint32(number[:])]; c != nil {
		select {
		case c <- Heard{bytes.Clone(d.payload), bytes.Clone(d.fromMAC[:])}:
		default:
		}
	}
}
