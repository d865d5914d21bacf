package failover

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"fairlead.io/sandbox"
)

// A connection that is being opened while its address moves is opened: the client's
// acknowledgement arrives at the next owner, which hands it to the former one.
func TestHandshakesSurviveMoves(t *testing.T) {
	const each = 10
	w := newWorld(t)
	t.Cleanup(func() { uncordonAll(t) })
	former := w.settled()
	release := holdAcknowledgements(t)
	var open []net.Conn
	for _, addr := range w.addrs {
		for range each {
			// The client has the node's answer: to it the connection is open.
			c, err := cluster.DialWith(t.Context(), &net.Dialer{}, sandbox.ClientHost, "tcp", netip.AddrPortFrom(addr, 80).String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			open = append(open, c)
		}
	}
	cordon(t, former, true)
	next := w.moved(former)
	release()
	for _, c := range open {
		// The server greets when it has the acknowledgement, for which it asks again after a
		// second, two, four, and so on.
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		said := make([]byte, 5)
		if _, err := io.ReadFull(c, said); err != nil {
			t.Errorf("%s, opened through %s and at %s now: %v", c.RemoteAddr(), former, next, err)
		}
	}
}

// holdAcknowledgements has the client send nothing to port 80 but first packets until release is
// called.
func holdAcknowledgements(t *testing.T) (release func()) {
	t.Helper()
	nft := func(command string) error {
		out, err := cluster.Exec(context.Background(), sandbox.ClientHost, "nft", command)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := nft("table inet hold { chain output { type filter hook output priority 0; tcp dport 80 tcp flags & (syn|ack) == ack drop; }; }"); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := nft("delete table inet hold"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}
