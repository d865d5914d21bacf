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

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"fairlead.io/sandbox"
)

// Asker asks for an IPv4 address by ARP, again and again, and notes who answers:
// what a host sees that does not know the address yet. It has an own hardware
// address on the client host's cable, so that the answers teach the client
// host's kernel nothing.
type Asker struct {
	conn    *packet.Conn
	addr    netip.Addr
	stop    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	asked   []time.Time
	answers []answer
}

type answer struct {
	node string
	at   time.Time
}

var (
	everybody = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	askerMAC  = net.HardwareAddr{0x02, 0, 0, 0, 0, 98}
	askerAddr = netip.MustParseAddr("10.77.0.98")
)

// Ask begins to ask for an address.
func Ask(c *sandbox.Cluster, addr netip.Addr) (*Asker, error) {
	a := &Asker{addr: addr, stop: make(chan struct{})}
	err := c.In(sandbox.ClientHost, func() error {
		ifi, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		a.conn, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_ARP, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for %s on the LAN: %w", addr, err)
	}
	a.running.Go(a.ask)
	a.running.Go(a.hear)
	return a, nil
}

// Close ends the questions.
func (a *Asker) Close() {
	close(a.stop)
	_ = a.conn.Close()
	a.running.Wait()
}

func (a *Asker) ask() {
	b := new(bytes.Buffer)
	b.Write(everybody)
	b.Write(askerMAC)
	for _, field := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP, 0x0604, 1} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	b.Write(askerMAC)
	b.Write(askerAddr.AsSlice())
	b.Write(make([]byte, 6))
	b.Write(a.addr.AsSlice())
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		a.mu.Lock()
		a.asked = append(a.asked, time.Now())
		a.mu.Unlock()
		_, _ = a.conn.WriteTo(b.Bytes(), &packet.Addr{HardwareAddr: everybody})
		select {
		case <-a.stop:
			return
		case <-tick.C:
		}
	}
}

// hear notes replies to the asker; announcements are to all.
func (a *Asker) hear() {
	b := make([]byte, 128)
	for {
		n, _, err := a.conn.ReadFrom(b)
		if err != nil {
			return
		}
		reply := n >= 42 && b[21] == 2 && slices.Equal(net.HardwareAddr(b[32:38]), askerMAC)
		if !reply || netip.AddrFrom4([4]byte(b[28:32])) != a.addr {
			continue
		}
		a.mu.Lock()
		a.answers = append(a.answers, answer{nodeOf(b[22:28]), time.Now()})
		a.mu.Unlock()
	}
}

// since returns the answers from a moment on.
func (a *Asker) since(t time.Time) []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.answers, t, func(x answer, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(a.answers[first:])
}

// Nodes that have answered since a moment.
func (a *Asker) Nodes(since time.Time) (nodes []string) {
	for _, x := range a.since(since) {
		if !slices.Contains(nodes, x.node) {
			nodes = append(nodes, x.node)
		}
	}
	return nodes
}

// Gap is the longest time without an answer since a moment.
func (a *Asker) Gap(since time.Time) time.Duration {
	var at []time.Time
	for _, x := range a.since(since) {
		at = append(at, x.at)
	}
	return longestGap(since, at, time.Now())
}

// Unanswered is how many questions in a row nobody answered since a moment. It does not
// depend on how often this program gets to ask.
func (a *Asker) Unanswered(since time.Time) (most int) {
	heard := a.since(since)
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.asked, since, time.Time.Compare)
	row := 0
	for _, at := range a.asked[first:] {
		for len(heard) > 0 && heard[0].at.Before(at) {
			heard, row = heard[1:], 0
		}
		row++
		most = max(most, row)
	}
	return most
}

// nodeOf says whose a hardware address is: its last byte is that of the host's
// addresses.
func nodeOf(mac net.HardwareAddr) string {
	if mac[1] != 0xfa {
		return mac.String()
	}
	return fmt.Sprintf("node%d", int(mac[5])-10)
}
