package bgp

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLink is a link in virtual time.
type fakeLink struct {
	heard chan struct {
		router   netip.Addr
		lifetime time.Duration
	}
	solicited, advertised int
	closed                chan struct{}
}

func newFakeLink() *fakeLink {
	return &fakeLink{closed: make(chan struct{}), heard: make(chan struct {
		router   netip.Addr
		lifetime time.Duration
	})}
}

func (l *fakeLink) Hear() (netip.Addr, time.Duration, error) {
	select {
	case h := <-l.heard:
		return h.router, h.lifetime, nil
	case <-l.closed:
		return netip.Addr{}, 0, net.ErrClosed
	}
}

func (l *fakeLink) say(router string, lifetime time.Duration) {
	l.heard <- struct {
		router   netip.Addr
		lifetime time.Duration
	}{netip.MustParseAddr(router), lifetime}
}

func (l *fakeLink) Solicit() error   { l.solicited++; return nil }
func (l *fakeLink) Advertise() error { l.advertised++; return nil }
func (l *fakeLink) Close() error     { close(l.closed); return nil }

func TestUnnumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := newFakeLink()
		p := node()
		p.Address, p.Interface = netip.Addr{}, "eth0"
		w := startOn(t, p, func(n *fakeNet) { n.link = link })
		w.Set("r1", table("203.0.113.1/32", "2001:db8:9::1/128"))
		synctest.Wait()
		if f := w.failure(NoRouter); !strings.Contains(f.Text, "no router advertisement was heard on interface eth0") {
			t.Error(f)
		}
		if link.solicited != 1 || link.advertised != 1 {
			t.Errorf("solicited %d times, advertised %d times", link.solicited, link.advertised)
		}
		link.say("fe80::99", 0) // another node
		pass(30 * time.Second)
		w.failure(NoRouter)
		if link.advertised != 4 {
			t.Errorf("advertised %d times", link.advertised)
		}
		go link.say("fe80::1", 30*time.Second)
		r := w.accept()
		far := upstream()
		far.ExtendedNextHop = true
		r.shake(far)
		got := rib{}
		r.fill(got, 2)
		if !strings.Contains(got["203.0.113.1/32"], "via fe80::11") || !strings.Contains(got["2001:db8:9::1/128"], "via fe80::11") {
			t.Errorf("the router has %v", got)
		}
		synctest.Wait()
		if st := w.status(); st.Remote != netip.MustParseAddr("fe80::1%eth0") {
			t.Errorf("status: %+v", st)
		}
		link.say("fe80::2", 30*time.Second)
		synctest.Wait()
		_ = r.conn.Close()
		pass(2 * time.Second)
		if f := w.failure(SeveralRouters); !strings.Contains(f.Text, "fe80::1 and fe80::2") {
			t.Error(f)
		}
		go link.say("fe80::2", 0)
		w.accept()
	})
}

func TestUnnumberedWithoutTheInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node()
		p.Address, p.Interface = netip.Addr{}, "eth9"
		w := start(t, p)
		w.Set("r1", nil)
		pass(10 * time.Second)
		if f := w.failure(NoRouter); !strings.Contains(f.Text, "no such device") {
			t.Error(f)
		}
	})
}

// TestManyRouters: nobody on the link can make a node remember more and more.
func TestManyRouters(t *testing.T) {
	r := &routers{link: "eth0", news: make(chan struct{}, 1), until: map[netip.Addr]time.Time{}}
	addr := netip.MustParseAddr("fe80::1")
	for range 1000 {
		addr = addr.Next()
		r.note(addr, time.Hour, time.Now())
	}
	r.note(netip.MustParseAddr("2001:db8::1"), time.Hour, time.Now())
	if len(r.until) != maxRouters {
		t.Errorf("%d routers are remembered", len(r.until))
	}
}

func FuzzReadAdvertisement(f *testing.F) {
	f.Add([]byte{134, 0, 0, 0, 64, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if lifetime, ok := readAdvertisement(b); ok && (lifetime < 0 || lifetime > 65535*time.Second || len(b) < 16) {
			t.Errorf("% x: %v", b, lifetime)
		}
	})
}
