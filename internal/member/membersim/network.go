// Package membersim is a network in memory for groups of members, and measures
// them on it.
//
// A hundred members that probe each other every 75 ms cannot be measured on a few
// cores: what would be measured is the lack of CPU. In a bubble of
// testing/synctest time stands still while anybody computes, so the times are
// those of the protocol, on a network that takes Delay, on machines that are
// infinitely fast.
//
// It is for tests and benchmarks; the product does not import it.
package membersim

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Network connects transports. Its fields must not be changed once it is used.
type Network struct {
	Delay time.Duration // of a packet, one way
	Loss  float64       // the share of packets that are lost; streams lose nothing

	mu    sync.Mutex
	ports map[netip.AddrPort]*Transport
	sides map[netip.Addr]int // who can speak with whom: those on the same side
	next  int

	recorded *recorder
}

// Transport binds an address, replacing who had it.
func (n *Network) Transport(addr netip.AddrPort) *Transport {
	t := &Transport{
		net: n, addr: addr, packets: make(chan *memberlist.Packet, 4096), streams: make(chan net.Conn, 16),
		done: make(chan struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports == nil {
		n.ports, n.sides = map[netip.AddrPort]*Transport{}, map[netip.Addr]int{}
	}
	n.ports[addr] = t
	return t
}

// Split cuts these nodes off from all others, but not from each other.
func (n *Network) Split(nodes ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	for _, a := range nodes {
		n.sides[a] = n.next
	}
}

// Heal puts all nodes on one side again.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.sides)
}

// route finds who listens at an address. Silent: no answer will come, as opposed
// to the answer that nobody listens there.
func (n *Network) route(from, to netip.AddrPort) (t *Transport, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sides[from.Addr()] != n.sides[to.Addr()] {
		return nil, true
	}
	return n.ports[to], false
}

// Transport is one member's access to a Network.
type Transport struct {
	net     *Network
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
}

var _ memberlist.Transport = (*Transport)(nil)

// FinalAdvertiseAddr implements memberlist.Transport, as do all methods.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

func (t *Transport) WriteTo(b []byte, to string) (time.Time, error) {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	if rand.Float64() < t.net.Loss {
		return now, nil
	}
	packet := append([]byte(nil), b...)
	t.net.recorder().packet(packet)
	time.AfterFunc(t.net.Delay, func() {
		peer, _ := t.net.route(t.addr, addr)
		if peer == nil {
			return
		}
		select {
		case peer.packets <- &memberlist.Packet{Buf: packet, From: net.UDPAddrFromAddrPort(t.addr), Timestamp: time.Now()}:
		default: // a full socket buffer
		}
	})
	return now, nil
}

// synAgain is when a kernel repeats the first packet of a connection.
const synAgain = time.Second

func (t *Transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for {
		peer, silent := t.net.route(t.addr, addr)
		if peer != nil {
			return t.connect(peer)
		}
		if !silent {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		select {
		case <-time.After(synAgain):
		case <-limit.C:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		case <-t.done:
			return nil, net.ErrClosed
		}
	}
}

func (t *Transport) connect(peer *Transport) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case peer.streams <- theirs:
		if r := t.net.recorder(); r != nil {
			return &recording{ours, r}, nil
		}
		return ours, nil
	case <-peer.done:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
}

func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *Transport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *Transport) Shutdown() error {
	t.once.Do(func() {
		close(t.done)
		t.net.mu.Lock()
		defer t.net.mu.Unlock()
		if t.net.ports[t.addr] == t {
			delete(t.net.ports, t.addr)
		}
	})
	return nil
}
