package metallb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// speakers stand for MetalLB's: on the node that MetalLB would choose, a process
// answers ARP for an address from a packet socket, with the node's hardware
// address, and the kernel knows nothing of it.
type speakers struct {
	conns   []*packet.Conn
	reading sync.WaitGroup
}

// winner is the node that MetalLB has announce an address: the first by
// sha256(node#address).
func winner(address netip.Addr) string {
	key := func(node string) []byte {
		sum := sha256.Sum256([]byte(node + "#" + address.String()))
		return sum[:]
	}
	return slices.MinFunc(nodes, func(a, b string) int { return bytes.Compare(key(a), key(b)) })
}

// speak starts the speakers for addresses.
func speak(t *testing.T, addresses ...netip.Addr) *speakers {
	t.Helper()
	s := &speakers{}
	t.Cleanup(s.stop)
	for _, node := range nodes {
		var mine []netip.Addr
		for _, a := range addresses {
			if winner(a) == node {
				mine = append(mine, a)
			}
		}
		var conn *packet.Conn
		var mac net.HardwareAddr
		if err := cluster.In(node, func() error {
			ifi, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			mac = ifi.HardwareAddr
			conn, err = packet.Listen(ifi, packet.Raw, unix.ETH_P_ARP, nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.conns = append(s.conns, conn)
		for _, a := range mine {
			send(conn, broadcast, mac, 2, mac, a, broadcast, a)
		}
		s.reading.Go(func() { respond(conn, mac, mine) })
	}
	return s
}

// stop ends all of them.
func (s *speakers) stop() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.reading.Wait()
	s.conns = nil
}

// respond answers requests for addresses.
func respond(conn *packet.Conn, mac net.HardwareAddr, addresses []netip.Addr) {
	b := make([]byte, 128)
	for {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		const request = 1
		if n < 42 || binary.BigEndian.Uint16(b[20:]) != request {
			continue
		}
		asked, asker := netip.AddrFrom4([4]byte(b[38:42])), netip.AddrFrom4([4]byte(b[28:32]))
		if to := net.HardwareAddr(b[:6]); slices.Contains(addresses, asked) && (bytes.Equal(to, broadcast) || bytes.Equal(to, mac)) {
			from := net.HardwareAddr(slices.Clone(b[22:28]))
			send(conn, from, mac, 2, mac, asked, from, asker)
		}
	}
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// send sends an ARP frame.
func send(conn *packet.Conn, to, from net.HardwareAddr, op uint16, senderMAC net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr) {
	b := new(bytes.Buffer)
	b.Write(to)
	b.Write(from)
	for _, field := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP, 0x0604, op} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	b.Write(senderMAC)
	b.Write(sender.AsSlice())
	b.Write(targetMAC)
	b.Write(target.AsSlice())
	_, _ = conn.WriteTo(b.Bytes(), &packet.Addr{HardwareAddr: to})
}

// The winners are those of MetalLB's own tests.
func TestWinner(t *testing.T) {
	before := nodes
	defer func() { nodes = before }()
	for _, test := range []struct {
		address, want string
		nodes         []string
	}{
		{"10.20.30.1", "iris2", []string{"iris1", "iris2"}},
		{"10.20.30.2", "iris1", []string{"iris1", "iris2"}},
		{"10.0.0.1", "node-b", []string{"node-a", "node-b", "node-c"}},
		{"192.168.1.240", "node5", []string{"node1", "node2", "node3", "node4", "node5"}},
	} {
		nodes = test.nodes
		if got := winner(netip.MustParseAddr(test.address)); got != test.want {
			t.Errorf("%s is announced by %s, want %s", test.address, got, test.want)
		}
	}
}
