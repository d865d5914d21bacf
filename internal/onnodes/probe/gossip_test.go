package probe

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/snapshot"
)

// Nodes that answer are found, one that does not is named, and a port that is in use is
// no failure.
func TestGossip(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	peers := []onnodes.Peer{{Node: "a", Address: "127.0.0.1"}, {Node: "b", Address: "127.0.0.2"}}
	var running sync.WaitGroup
	for _, p := range peers {
		running.Go(func() {
			mark, fact, _ := gossip(t.Context(), Options{Node: p.Node, Peers: peers, Nonce: "one", Port: port, For: time.Minute})
			if mark != snapshot.Passed {
				t.Errorf("%s: %s", p.Node, fact)
			}
		})
	}
	running.Wait()
	mark, fact, fix := gossip(t.Context(), Options{Node: "a", Peers: peers, Nonce: "two", Port: port, For: time.Second})
	if mark != snapshot.Failed || !strings.Contains(fact, "1 of 1 nodes do not answer") || !strings.Contains(fact, "b (127.0.0.2) by udp") || fix == "" {
		t.Errorf("%s: %s", mark, fact)
	}
	used, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	mark, fact, _ = gossip(t.Context(), Options{Node: "a", Peers: peers, Nonce: "two", Port: used.LocalAddr().(*net.UDPAddr).Port, For: time.Second})
	if mark != snapshot.Skipped || !strings.Contains(fact, "is in use") {
		t.Errorf("%s: %s", mark, fact)
	}
}
