package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// ErrGone says that the interface of a Port does not exist any more; one that
// comes back under the same name is another, and needs another Port.
var ErrGone = errors.New("the interface is gone")

// Port sends and hears on one Ethernet-like interface. It needs no address on
// it, and outlives its link going down and up and changes of its MAC and name.
// All methods may be used concurrently.
type Port struct {
	name    string
	sockets [len(lb.Families)]*packet.Conn

	heard   chan Sighting
	missed  atomic.Uint64
	watched atomic.Pointer[sets.Set[netip.Addr]]

	mu      sync.Mutex
	probes  map[netip.Addr][]*probe
	turn    pacer // of probes
	reports map[netip.Addr]Sighting

	groups sync.Mutex // one change of multicast groups at a time

	done    chan struct{}
	close   func() error
	readers sync.WaitGroup
}

// Open opens a port on the interface of that name in the network namespace of
// the calling thread. The interface may be down.
func Open(name string) (*Port, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("open port on %s: %w", name, err)
	}
	p := &Port{
		name:    name,
		heard:   make(chan Sighting, 64),
		probes:  map[netip.Addr][]*probe{},
		turn:    probePace,
		reports: map[netip.Addr]Sighting{},
		done:    make(chan struct{}),
	}
	p.close = sync.OnceValue(p.end)
	p.watched.Store(&sets.Set[netip.Addr]{})
	for _, f := range lb.Families {
		if p.sockets[f], err = listen(ifi, f); err != nil {
			return nil, errors.Join(fmt.Errorf("open port on %s for %s: %w", name, f, err), p.closeSockets())
		}
	}
	if _, err := p.mac(lb.IPv4); err != nil {
		return nil, errors.Join(fmt.Errorf("open port on %s: %w", name, err), p.closeSockets())
	}
	for _, f := range lb.Families {
		p.readers.Go(func() { p.read(p.sockets[f]) })
	}
	return p, nil
}

func listen(ifi *net.Interface, f lb.Family) (*packet.Conn, error) {
	program, err := filter(f)
	if err != nil {
		return nil, err
	}
	c, err := packet.Listen(ifi, packet.Raw, etherType(f), &packet.Config{Filter: program})
	if err != nil || f == lb.IPv4 {
		return c, err
	}
	// Where IPv6 is off, nobody else has told the interface to listen to this.
	if err := c.JoinGroup(multicastMAC(allNodes).hardware()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends all that the port does, and then closes the channel of Heard.
func (p *Port) Close() error { return p.close() }

func (p *Port) end() error {
	close(p.done)
	err := p.closeSockets()
	p.readers.Wait()
	close(p.heard)
	return err
}

func (p *Port) closeSockets() error {
	var errs []error
	for _, c := range p.sockets {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// MAC returns the interface's address as it is now.
func (p *Port) MAC() (net.HardwareAddr, error) {
	m, err := p.mac(lb.IPv4)
	return m.hardware(), err
}

// mac asks the kernel each time, which costs well under a microsecond: the name
// of a packet socket has the address of its interface as it is now, whatever the
// interface is called.
func (p *Port) mac(f lb.Family) (mac, error) {
	var name unix.Sockaddr
	err := p.call(f, func(fd int) (err error) {
		name, err = unix.Getsockname(fd)
		return err
	})
	ll, ok := name.(*unix.SockaddrLinklayer)
	switch {
	case err != nil:
		return mac{}, err
	case !ok || ll.Halen == 0 && ll.Hatype == 0:
		return mac{}, ErrGone
	case ll.Hatype != unix.ARPHRD_ETHER || ll.Halen != 6:
		return mac{}, errors.New("not an Ethernet interface")
	}
	return mac(ll.Addr[:6]), nil
}

// Announce tells all on the LAN that addr is here, once, in all forms.
func (p *Port) Announce(addr netip.Addr) error {
	for form := range forms(addr) {
		if err := p.Send(addr, form); err != nil {
			return err
		}
	}
	return nil
}

// Send sends one form of an announcement of addr.
func (p *Port) Send(addr netip.Addr, form Form) error {
	return p.send(addr, "announce", func(own mac) ([]byte, error) { return announcement(addr, own, form) })
}

func (p *Port) send(addr netip.Addr, verb string, compose func(own mac) ([]byte, error)) error {
	f := lb.FamilyOf(addr)
	own, err := p.mac(f)
	if err == nil {
		var frame []byte
		if frame, err = compose(own); err == nil {
			err = p.write(f, frame)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s on %s: %w", verb, addr, p.name, err)
	}
	return nil
}

// write never waits: where the queue of the interface is full, the frame is lost
// (EAGAIN). Announcements and probes are repeated anyway.
func (p *Port) write(f lb.Family, frame []byte) error {
	return p.call(f, func(fd int) error {
		err := unix.Send(fd, frame, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.ENETDOWN) {
			// The link is down, or has been since the socket was last used: the
			// first call afterwards gets the error that was kept for it (packet(7)).
			err = unix.Send(fd, frame, unix.MSG_DONTWAIT)
		}
		return err
	})
}

// call makes a system call on a socket that stays open meanwhile.
func (p *Port) call(f lb.Family, do func(fd int) error) error {
	raw, err := p.sockets[f].SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = do(int(fd)) }); err != nil {
		return err
	}
	return result
}

// read hears frames until the port is closed. That the link went down is told
// once as ENETDOWN; the kernel attaches the socket again when it comes up.
func (p *Port) read(c *packet.Conn) {
	var frame [maxFrame]byte
	for {
		n, _, err := c.ReadFrom(frame[:])
		switch {
		case err == nil:
			if s, ok := decode(frame[:n]); ok {
				p.notice(s)
			}
			continue
		case errors.Is(err, unix.ENETDOWN):
			continue
		}
		select {
		case <-p.done:
			return
		case <-time.After(50 * time.Millisecond): // never seen, but must not spin
		}
	}
}
