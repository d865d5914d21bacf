package carry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/wire"
)

// port is a real LAN.
type port struct {
	*wire.Port
	*wire.Announcer
	end     func()
	running sync.WaitGroup

	counter *packet.Conn
	packets uint64
}

// Open opens an interface in the network namespace of the calling thread. Nothing is
// announced any more when ctx ends.
func Open(ctx context.Context, iface string, addr netip.Addr) (LAN, error) {
	w, err := wire.Open(iface)
	if err != nil {
		return nil, err
	}
	counter, err := count(iface, addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("count packets on %s: %w", iface, err), w.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &port{Port: w, Announcer: wire.NewAnnouncer(w.Send, wire.Pace{}), end: cancel, counter: counter}
	w.Watch([]netip.Addr{addr})
	p.running.Go(func() { p.Announcer.Run(ctx) })
	return p, nil
}

// Close ends everything.
func (p *port) Close() {
	p.end()
	p.running.Wait()
	_, _ = p.Port.Close(), p.counter.Close()
}

// count opens a socket that counts the packets for addr that arrive at an interface.
// Nobody reads from it: the kernel counts also what does not fit into its queue, which
// is as small as it can be.
func count(iface string, addr netip.Addr) (*packet.Conn, error) {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	program, err := bpf.Assemble(filter(addr))
	if err != nil {
		return nil, err
	}
	kind := unix.ETH_P_IP
	if addr.Is6() {
		kind = unix.ETH_P_IPV6
	}
	c, err := packet.Listen(ifi, packet.Datagram, kind, &packet.Config{Filter: program})
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 0) })
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// filter accepts packets whose destination is addr.
func filter(addr netip.Addr) []bpf.Instruction {
	offset := uint32(16) // of the destination in an IPv4 header
	if addr.Is6() {
		offset = 24
	}
	bytes := addr.AsSlice()
	var out []bpf.Instruction
	for i := 0; i < len(bytes); i += 4 {
		word := uint32(bytes[i])<<24 | uint32(bytes[i+1])<<16 | uint32(bytes[i+2])<<8 | uint32(bytes[i+3])
		rest := uint8((len(bytes)-i)/4*2 - 1) // instructions between this one and the last
		out = append(out, bpf.LoadAbsolute{Off: offset + uint32(i), Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word, SkipTrue: rest})
	}
	return append(out, bpf.RetConstant{Val: 1}, bpf.RetConstant{Val: 0})
}

// Packets is how many packets for the address have arrived.
func (p *port) Packets() (uint64, error) {
	s, err := p.counter.Stats() // since the last time
	if err != nil {
		return p.packets, err
	}
	p.packets += uint64(s.Packets)
	return p.packets, nil
}
