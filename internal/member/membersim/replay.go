package membersim

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// recorder keeps what members send, as a host without the key can that sees their
// packets.
type recorder struct {
	mu      sync.Mutex
	packets [][]byte
	streams [][]byte // what those who opened streams have sent in them
	ended   bool
}

// Record keeps everything that members send from now on.
func (n *Network) Record() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recorded = &recorder{}
}

func (n *Network) recorder() *recorder {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.recorded
}

func (r *recorder) packet(b []byte) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended {
			r.packets = append(r.packets, b)
		}
	}
}

// Replay sends everything that was recorded to one member again, and ends the
// recording. It says how many packets and streams that were.
func (n *Network) Replay(to netip.AddrPort) (packets, streams int) {
	r := n.recorder()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	peer, _ := n.route(to, to)
	if peer == nil {
		return 0, 0
	}
	for i, b := range r.packets {
		packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(to), Timestamp: time.Now()}
		select {
		case peer.packets <- packet:
		case <-peer.done:
			return i, 0
		}
		if i%100 == 0 {
			pause(time.Millisecond)
		}
	}
	for i, b := range r.streams {
		ours, theirs := net.Pipe()
		select {
		case peer.streams <- theirs:
		case <-peer.done:
			return len(r.packets), i
		}
		_, _ = ours.Write(b)
		_, _ = io.Copy(io.Discard, ours)
		_ = ours.Close()
	}
	return len(r.packets), len(r.streams)
}

// recording is a stream whose first message is recorded.
type recording struct {
	net.Conn
	to *recorder
}

func (c *recording) Write(b []byte) (int, error) {
	c.to.mu.Lock()
	if !c.to.ended {
		c.to.streams = append(c.to.streams, append([]byte(nil), b...))
	}
	c.to.mu.Unlock()
	return c.Conn.Write(b)
}
