package failover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rogue is a router that misbehaves, and what the agent says about it.
type rogue struct {
	name         string
	speak        func(c *net.TCPConn)
	reason, text string
}

// message of BGP.
func message(kind byte, body ...byte) []byte {
	b := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, kind)
	binary.BigEndian.PutUint16(b[16:], uint16(19+len(body)))
	return append(b, body...)
}

// open is that of AS 65001, with a hold time of 90 s, and options.
func open(options ...byte) []byte {
	return message(1, append([]byte{4, 0xfd, 0xe9, 0, 90, 1, 2, 3, 4, byte(len(options))}, options...)...)
}

var rogues = []rogue{
	{"garbage", func(c *net.TCPConn) {
		_, _ = io.Copy(c, io.LimitReader(strings.NewReader(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 100_000)), 2<<20))
	}, "PeerRefused", "does not speak BGP"},
	{"resets", func(c *net.TCPConn) { _, _ = c.SetLinger(0), c.Close() }, "PeerDown", "reset the connection"},
	{"silent", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }, "PeerDown", "does not answer an OPEN"},
	{"malformed", func(c *net.TCPConn) { _, _ = c.Write(open(2, 9, 1, 1)) }, "PeerRefused", "cut off"},
	{"stranger", func(c *net.TCPConn) {
		b := open()
		b[20], b[21] = 0xfb, 0xff
		_, _ = c.Write(b)
	}, "PeerRefused", "says it is AS 64511"},
	{"rude", func(c *net.TCPConn) {
		const words = "\x1b[2Jgo away\n\x00"
		_, _ = c.Write(message(3, append([]byte{6, 2, byte(len(words))}, words...)...))
	}, "PeerRefused", "go away"},
	{"flood", flood, "PeerReady", ""},
}

// flooded is how much a router sends that has a table of its own: about a million routes.
const flooded = 64 << 20

// flood establishes a session, and sends one large table.
func flood(c *net.TCPConn) {
	if _, err := c.Write(append(open(), message(4)...)); err != nil {
		return
	}
	update := message(2, append([]byte{0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe9, 0x40, 3, 4, 10, 77, 0, 251}, bytes.Repeat([]byte{24, 1, 2, 3}, 900)...)...)
	for sent := 0; sent < flooded; sent += len(update) {
		if _, err := c.Write(update); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, c)
}

// serve is the router on one port until the test ends.
func (r *routers) serve(port int, speak func(*net.TCPConn)) {
	r.t.Helper()
	var l net.Listener
	var err error
	r.ns.Do(func() { l, err = net.Listen("tcp", net.JoinHostPort(frrAddress, strconv.Itoa(port))) })
	if err != nil {
		r.t.Fatal(err)
	}
	var speaking sync.WaitGroup
	ended := make(chan struct{})
	speaking.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			speaking.Go(func() {
				defer func() { _ = conn.Close() }()
				over := make(chan struct{})
				speaking.Go(func() {
					select {
					case <-ended:
						_ = conn.Close()
					case <-over:
					}
				})
				defer close(over)
				speak(conn.(*net.TCPConn))
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // for its last words
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	r.t.Cleanup(func() {
		close(ended)
		_ = l.Close()
		speaking.Wait()
	})
}

// Routers that answer garbage, reset, never answer, send a malformed OPEN or a full table: each
// has a reason, others are not disturbed, and no memory grows.
func TestBGPRogueRouters(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	before, unchanged := memory(t, running["node1"].pid), r.steady(p)
	for i, rogue := range rogues {
		r.serve(2001+i, rogue.speak)
		bgpObject(t, "BGPPeer", rogue.name, onNode1(fmt.Sprintf("peerAddress: %s, peerPort: %d, myASN: 65010, peerASN: 65001", frrAddress, 2001+i)))
	}
	for _, rogue := range rogues {
		if rogue.reason != "PeerReady" {
			awaitPeer(t, "node1", rogue.name, rogue.reason, rogue.text)
		}
	}
	eventually(t, func() error {
		got, err := peerOf(t, "node1", "flood")
		if err == nil && got.State != "Established" {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	got, err := peerOf(t, "node1", "rude")
	if err != nil || strings.ContainsAny(got.Message, "\x1b\n\x00") {
		t.Errorf("%q %v", got.Message, err)
	}
	eventually(t, func() error { // all of it was read
		out := onHost(t, "node1", "ss", "-Htni", "state", "established", "dst "+frrAddress+" and dport = :"+strconv.Itoa(2000+len(rogues)))
		n, err := strconv.Atoi(strings.Fields(between(out, "bytes_received:", "\n") + " 0")[0])
		if err == nil && n < flooded {
			err = fmt.Errorf("%d bytes were read", n)
		}
		return err
	})
	unchanged()
	if err := r.established("node1"); err != nil {
		t.Error(err)
	}
	if after := memory(t, running["node1"].pid); after > before+32<<20 {
		t.Errorf("the agent of node1 had %d bytes of memory before, and has %d", before, after)
	}
}

// memory of a process, in bytes.
func memory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(between(string(status), "VmRSS:", "\n"), " kB"))
	if err != nil || kib == 0 {
		t.Fatal(errors.Join(err, fmt.Errorf("the memory of %d is %d KiB", pid, kib)))
	}
	return kib << 10
}
