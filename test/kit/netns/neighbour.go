package netns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// Asker asks with ARP and neighbour solicitations for addresses on a cable.
type Asker struct {
	ns  *NS
	ifi *net.Interface
	src netip.Addr // IPv4 address to ask from
	arp *packet.Conn
	ndp *ndp.Conn
}

// Asker on an interface of the namespace; src is an IPv4 address of it.
func (n *NS) Asker(ifname string, src netip.Addr) *Asker {
	n.t.Helper()
	a := &Asker{ns: n, src: src}
	var err error
	n.Do(func() {
		if a.ifi, err = net.InterfaceByName(ifname); err != nil {
			return
		}
		if a.arp, err = packet.Listen(a.ifi, packet.Raw, unix.ETH_P_ARP, nil); err != nil {
			return
		}
		a.ndp, _, err = ndp.Listen(a.ifi, ndp.LinkLocal)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _, _ = a.arp.Close(), a.ndp.Close() })
	return a
}

// Answers says whether the other end answers for addr. The other end is asked
// for addr and then for its own address, for which it always answers, and
// answers come in the order of the questions: so a missing answer shows without
// waiting for it.
func (a *Asker) Answers(addr, own netip.Addr) bool {
	a.ns.t.Helper()
	ask, hear := a.askARP, a.hearARP
	if addr.Is6() {
		ask, hear = a.askND, a.hearND
	}
	for range 20 {
		err := onOneCPU(func() error { return errors.Join(ask(addr), ask(own)) })
		if err != nil {
			a.ns.t.Fatalf("ask for %v and %v: %v", addr, own, err)
		}
		answered := false
		for deadline := time.Now().Add(500 * time.Millisecond); ; {
			who, err := hear(deadline)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				// The kernel joins the group for solicitations of an IPv6 address some
				// time after the address was added: ask again.
				break
			}
			switch {
			case err != nil:
				a.ns.t.Fatal(err)
			case who == addr:
				answered = true
			case who == own:
				return answered
			}
		}
	}
	a.ns.t.Fatalf("%v is not answered for", own)
	return false
}

// onOneCPU calls f on one processor: each has a queue of its own for packets on
// virtual cables, and only in one queue do they keep their order.
func onOneCPU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

func (a *Asker) askARP(target netip.Addr) error {
	b := new(bytes.Buffer)
	b.Write(bytes.Repeat([]byte{0xff}, 6))
	b.Write(a.ifi.HardwareAddr)
	for _, field := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP, 0x0604, 1} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	b.Write(a.ifi.HardwareAddr)
	b.Write(a.src.AsSlice())
	b.Write(make([]byte, 6))
	b.Write(target.AsSlice())
	_, err := a.arp.WriteTo(b.Bytes(), &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})
	return err
}

// hearARP returns the sender of the next reply.
func (a *Asker) hearARP(deadline time.Time) (netip.Addr, error) {
	if err := a.arp.SetReadDeadline(deadline); err != nil {
		return netip.Addr{}, err
	}
	b := make([]byte, 128)
	for {
		n, _, err := a.arp.ReadFrom(b)
		if err != nil {
			return netip.Addr{}, err
		}
		if n >= 42 && b[21] == 2 {
			return netip.AddrFrom4([4]byte(b[28:32])), nil
		}
	}
}

func (a *Asker) askND(target netip.Addr) error {
	group, err := ndp.SolicitedNodeMulticast(target)
	if err != nil {
		return err
	}
	return a.ndp.WriteTo(&ndp.NeighborSolicitation{
		TargetAddress: target,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: a.ifi.HardwareAddr}},
	}, nil, group)
}

// hearND returns the target of the next advertisement.
func (a *Asker) hearND(deadline time.Time) (netip.Addr, error) {
	if err := a.ndp.SetReadDeadline(deadline); err != nil {
		return netip.Addr{}, err
	}
	for {
		m, _, _, err := a.ndp.ReadFrom()
		if err != nil {
			return netip.Addr{}, err
		}
		if na, ok := m.(*ndp.NeighborAdvertisement); ok {
			return na.TargetAddress, nil
		}
	}
}
