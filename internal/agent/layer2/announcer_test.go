package layer2

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/link"
)

func TestMain(m *testing.M) { leak.Main(m) }

var _ agent.Announcer = (*Announcer)(nil)

// Interfaces that cannot be opened, or of which nothing is known, do no harm: a
// probe on them finds nobody, and they are tried again.
func TestInterfacesThatAreNotThere(t *testing.T) {
	a := New(t.Context(), Options{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	defer a.Close()
	addr := netip.MustParseAddr("192.0.2.7")
	gone := link.Link{Name: "nosuch0", Index: 7, Up: true, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	for range 2 {
		a.Follow([]link.Link{gone, {Name: "lo", Loopback: true, Up: true}, {Name: "tun0", Up: true}})
	}
	a.Own(addr, []string{"nosuch0", "lo"})
	a.Allow("nosuch0", time.Now().Add(time.Second))
	a.Commit()
	if a.Defend(addr, "nosuch0") {
		t.Error("defended where nothing is sent")
	}
	a.Probe(addr, []string{"nosuch0"}, func(net.HardwareAddr) bool { return false })
	if n := <-a.News(); !n.Probe || n.Addr != addr || n.MAC != nil {
		t.Errorf("probe: %+v", n)
	}
	a.Disown(addr, "nosuch0")
	a.Probe(addr, nil, nil) // Close does not wait for anybody to hear of it
}
