package conntrack_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.io/internal/conntrack"
)

// late is a port that leads to echo when there is a rule.
const late = 85

// ask sends from a port of the client to port late, and returns whether there is an answer.
func (l *lab) ask(network string, port int, to netip.Addr, patience time.Duration) (answered bool) {
	l.Helper()
	l.client.Do(func() {
		d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{Port: port}}
		if network == "udp" {
			d.LocalAddr = &net.UDPAddr{Port: port}
		}
		c, err := d.Dial(network, netip.AddrPortFrom(to, late).String())
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte("x"))
		_, err = c.Read(make([]byte, 1))
		answered = err == nil
	})
	return answered
}

// A client that asked before there was a rule for the Service is served afterwards, from the same
// port. Connections that are answered stay, and so do those of other addresses.
func TestRemoveStrays(t *testing.T) {
	const soon = 300 * time.Millisecond
	l := newLab(t)
	l.node.Run("nft", "table inet proxy { chain prerouting { type nat hook prerouting priority -100; }; }") // no rule yet
	l.node.Run("nft", fmt.Sprintf("table inet mute { chain output { type filter hook output priority -300; th sport %d drop; }; }", late))
	networks := []string{"tcp", "udp"}
	strays := 0
	for _, network := range networks {
		for i, to := range service {
			if l.ask(network, 40000+i, to, soon) {
				t.Fatal("there is an answer already")
			}
			l.dial(network, to, echo)
			strays++
		}
	}
	l.dial("udp", other[0], silent)
	l.node.Run("nft", fmt.Sprintf("add rule inet proxy prerouting meta l4proto { tcp, udp } th dport %d redirect to :%d", late, echo))
	for _, network := range networks {
		for i, to := range service {
			if l.ask(network, 40000+i, to, soon) {
				t.Errorf("%s to %v is answered although the kernel remembers it: this test shows nothing", network, to)
			}
		}
	}
	before := l.list()
	if n, err := conntrack.RemoveStraysIn(l.node.FD(), isService); n != strays || err != nil {
		t.Errorf("%d are removed (%v), want %d", n, err, strays)
	}
	if after := l.list(); !slices.Equal(after, before) {
		t.Errorf("then there are %v, before %v", after, before)
	}
	for _, network := range networks {
		for i, to := range service {
			if !l.ask(network, 40000+i, to, long) {
				t.Errorf("%s to %v is not answered", network, to)
			}
		}
	}
	if n, err := conntrack.RemoveStraysIn(l.node.FD(), isService); n != 0 || err != nil {
		t.Errorf("%d more are removed (%v)", n, err)
	}
}
