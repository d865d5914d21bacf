package carry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/wire"
)

// fakeLAN is an interface without a network.
type fakeLAN struct {
	mu      sync.Mutex
	owned   bool
	again   int
	heard   chan wire.Sighting
	other   net.HardwareAddr // that answers probes
	packets uint64
	closed  bool
}

func (f *fakeLAN) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}
func (f *fakeLAN) Own(...netip.Addr)           { f.do(func() { f.owned = true }) }
func (f *fakeLAN) Again(...netip.Addr)         { f.do(func() { f.again++ }) }
func (f *fakeLAN) Disown(...netip.Addr)        { f.do(func() { f.owned = false }) }
func (f *fakeLAN) Heard() <-chan wire.Sighting { return f.heard }
func (f *fakeLAN) Close()                      { f.do(func() { f.closed = true }) }
func (f *fakeLAN) Packets() (n uint64, err error) {
	f.do(func() { n = f.packets })
	return n, nil
}

func (f *fakeLAN) Probe(context.Context, netip.Addr, func(net.HardwareAddr) bool) (mac net.HardwareAddr, err error) {
	f.do(func() { mac = f.other })
	return mac, nil
}

func (f *fakeLAN) owns() (owns bool) {
	f.do(func() { owns = f.owned })
	return owns
}

var (
	address  = netip.MustParseAddr("203.0.113.7")
	stranger = net.HardwareAddr{2, 0, 0, 0, 0, 9}
)

func eth(name string, index int, isDefault bool) link.Link {
	return link.Link{Name: name, Index: index, MAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(index)}, Up: true,
		Global: [2]bool{true, true}, Default: [2]bool{isDefault, isDefault}}
}

// run carries an address on fakes in virtual time, and calls play meanwhile.
func run(t *testing.T, links []link.Link, play func(kernel *link.Fake, lans map[string]*fakeLAN)) {
	synctest.Test(t, func(t *testing.T) {
		kernel := link.NewFake(links...)
		ctx, cancel := context.WithCancel(t.Context())
		lans := map[string]*fakeLAN{}
		var running sync.WaitGroup
		running.Go(func() {
			err := Run(ctx, Options{Address: address, Log: slog.New(slog.DiscardHandler), Kernel: kernel,
				Open: func(_ context.Context, name string, _ netip.Addr) (LAN, error) {
					lans[name] = &fakeLAN{heard: make(chan wire.Sighting)}
					return lans[name], nil
				}})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		play(kernel, lans)
		cancel()
		running.Wait()
		if got := kernel.Ours(); len(got) > 0 {
			t.Errorf("left behind: %v", got)
		}
	})
}

func at(kernel *link.Fake, iface string) bool {
	ours := kernel.Ours()
	return len(ours) == 1 && ours[0] == link.Address{Interface: iface, Addr: address}
}

// pause lets virtual time go on.
func pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestYieldsUntilFree(t *testing.T) {
	run(t, []link.Link{eth("ens3", 2, true)}, func(kernel *link.Fake, lans map[string]*fakeLAN) {
		lan := lans["ens3"]
		if !at(kernel, "ens3") || !lan.owns() {
			t.Fatalf("not carried: %v", kernel.Ours())
		}
		lan.heard <- wire.Sighting{Addr: address, MAC: eth("ens3", 2, true).MAC}
		synctest.Wait()
		if !at(kernel, "ens3") {
			t.Error("yielded to itself")
		}
		lan.do(func() { lan.other = stranger })
		lan.heard <- wire.Sighting{Addr: address, MAC: stranger}
		synctest.Wait()
		if len(kernel.Ours()) > 0 || lan.owns() {
			t.Fatal("not yielded")
		}
		pause(time.Minute)
		if len(kernel.Ours()) > 0 {
			t.Error("taken back while another host answers")
		}
		lan.do(func() { lan.other = nil })
		pause(yieldPause + yieldJitter + 2*checkPeriod)
		if !at(kernel, "ens3") || !lan.owns() {
			t.Error("not taken back")
		}
	})
}

// Whatever the kernel refuses is tried again, and the address follows its interface.
func TestFollowsInterface(t *testing.T) {
	run(t, []link.Link{eth("ens3", 3, true), eth("ens2", 2, false), eth("veth1", 1, false)}, func(kernel *link.Fake, lans map[string]*fakeLAN) {
		kernel.SetFail(func(verb, _ string, _ netip.Addr) error {
			if verb == "add" {
				return errors.New("not now")
			}
			return nil
		})
		kernel.Drop("ens3", address)
		pause(checkPeriod)
		if len(kernel.Ours()) > 0 {
			t.Error("the kernel has not refused it")
		}
		kernel.SetFail(nil)
		pause(2 * checkPeriod)
		if !at(kernel, "ens3") || !lans["ens3"].owns() {
			t.Error("not tried again")
		}
		kernel.SetLinks(eth("ens3", 3, false), eth("ens2", 2, true), eth("veth1", 1, false))
		pause(checkPeriod)
		if !at(kernel, "ens3") {
			t.Error("moved, although its interface is there")
		}
		kernel.SetLinks(eth("ens2", 2, true), eth("veth1", 1, false))
		pause(checkPeriod)
		if !at(kernel, "ens2") || !lans["ens2"].owns() || !lans["ens3"].closed {
			t.Errorf("not moved: %v", kernel.Ours())
		}
		down := eth("ens2", 2, true)
		down.Up = false
		kernel.SetLinks(down)
		synctest.Wait()
		kernel.SetLinks(eth("ens2", 2, true))
		synctest.Wait()
		lans["ens2"].do(func() {
			if lans["ens2"].again != 1 {
				t.Errorf("announced again %d times after the link was down", lans["ens2"].again)
			}
		})
	})
}
