package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"fairlead.io/internal/lb"
)

// maxInAnHour is how many messages a client may send in an hour in which it gets
// nothing: a hundred Services must not fill a LAN with them.
const maxInAnHour = 600

func useAddress(addr string) (func(*dhcpv4.DHCPv4), func(*dhcpv6.Message)) {
	ip := netip.MustParseAddr(addr)
	return func(m *dhcpv4.DHCPv4) { m.YourIPAddr = ip.AsSlice() },
		func(m *dhcpv6.Message) { m.Options.OneIANA().Options.OneAddress().IPv6Addr = ip.AsSlice() }
}

func useTime(life time.Duration) (func(*dhcpv4.DHCPv4), func(*dhcpv6.Message)) {
	return func(m *dhcpv4.DHCPv4) { m.UpdateOption(dhcpv4.OptIPAddressLeaseTime(life)) },
		func(m *dhcpv6.Message) { m.Options.OneIANA().Options.OneAddress().ValidLifetime = life }
}

// What makes no sense is not used, is told of, and is asked for again at leisure.
func TestUseless(t *testing.T) {
	for name, c := range map[string]struct {
		bend [len(lb.Families)]func(*fakeServer)
		why  string
	}{
		"loopback":    {bent(useAddress("127.0.0.1"))(useAddress("::1")), "loopback"},
		"multicast":   {bent(useAddress("224.0.0.7"))(useAddress("ff02::7")), "multicast"},
		"unspecified": {bent(useAddress("0.0.0.0"))(useAddress("::")), "unspecified"},
		"link-local":  {bent(useAddress("169.254.0.7"))(useAddress("fe80::7")), "link-local"},
		"broadcast":   {bent(useAddress("255.255.255.255"))(useAddress("ff02::1")), "cast"},
		"a second":    {bent(useTime(time.Second))(useTime(time.Second)), "for 1s only"},
		"nameless": {bent(func(m *dhcpv4.DHCPv4) { delete(m.Options, dhcpv4.OptionServerIdentifier.Code()) }, nil)(
			nil, func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionServerID) }), "does not say who it is"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
				s.must(t, server)
				server.set(func() { c.bend[lb.FamilyOf(server.addr)](server) })
				wait(2 * time.Hour) // the lease has ended
				l, err := s.now()
				if useless, ok := errors.AsType[Useless](err); l != nil || !ok || !strings.Contains(useless.Why, c.why) {
					t.Fatalf("lease %+v, %v", l, err)
				}
				server.took()
				s.changes()
				wait(time.Hour)
				if n := len(server.took()); n > maxInAnHour || s.changes() > 0 {
					t.Errorf("%d messages in an hour, or changes", n)
				}
				server.set(func() { server.bend4, server.bend6 = nil, nil })
				wait(2 * time.Minute)
				s.must(t, server)
			})
		})
	}
}

func bent(bend4 func(*dhcpv4.DHCPv4), _ func(*dhcpv6.Message)) func(func(*dhcpv4.DHCPv4), func(*dhcpv6.Message)) [len(lb.Families)]func(*fakeServer) {
	return func(_ func(*dhcpv4.DHCPv4), bend6 func(*dhcpv6.Message)) (out [len(lb.Families)]func(*fakeServer)) {
		out[lb.IPv4], out[lb.IPv6] = func(s *fakeServer) { s.bend4 = bend4 }, func(s *fakeServer) { s.bend6 = bend6 }
		return out
	}
}

// A server that is silent, refuses all, or sends everything a thousand times is
// not asked faster.
func TestLeisure(t *testing.T) {
	for name, change := range map[string]func(*fakeServer){
		"silent":  func(s *fakeServer) { s.down = true },
		"refuses": func(s *fakeServer) { s.refuse = true },
		"repeats": func(s *fakeServer) { s.copies = 1000 },
		"no time": func(s *fakeServer) { s.life = 0 },
		"no sense": func(s *fakeServer) {
			s.bend4 = func(m *dhcpv4.DHCPv4) { m.OpCode = 7 }
			s.bend6 = func(m *dhcpv6.Message) { m.MessageType = 99 }
		},
		"a stranger": func(s *fakeServer) {
			s.bend4 = func(m *dhcpv4.DHCPv4) { m.ClientHWAddr[5]++ }
			s.bend6 = func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionClientID) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, false, time.Minute, func(t *testing.T, server *fakeServer, s *state) {
				server.set(func() { change(server) })
				wait(10 * time.Minute)
				server.took()
				s.changes()
				wait(time.Hour)
				if n := len(server.took()); n > maxInAnHour || name != "repeats" && s.changes() > 0 {
					t.Errorf("%d messages in an hour, or changes", n)
				}
				if l, _ := s.now(); (l == nil) != (name != "repeats") {
					t.Errorf("lease %+v", l)
				}
			})
		})
	}
}

// A server that takes back whatever it gives is asked less and less often.
func TestFickle(t *testing.T) {
	inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		s.must(t, server)
		server.set(func() { server.fickle = true })
		wait(time.Hour)
		server.took()
		s.changes()
		wait(time.Hour)
		if n, changes := len(server.took()), s.changes(); n > 100 || changes > 100 || changes == 0 {
			t.Errorf("%d messages and %d changes in an hour", n, changes)
		}
	})
}

// An address that cannot be used is declined, and another is asked for; a server
// that gives the same again and again is asked less and less often.
func TestDecline(t *testing.T) {
	inVirtualClient(t, func(t *testing.T, client *Client, server *fakeServer, s *state) {
		first := s.must(t, server).Addr
		server.took()
		client.Decline(netip.MustParseAddr("192.0.2.99"), "it is not its own")
		s.must(t, server)
		client.Decline(first, "somebody has it")
		synctest.Wait()
		if l, err := s.now(); l != nil || !errors.Is(err, Useless{"somebody has it"}) {
			t.Fatalf("lease %+v, %v", l, err)
		}
		if got := server.took(); len(got) != 1 || got[0] != "DECLINE" {
			t.Fatalf("messages %v", got)
		}
		server.set(func() { server.addr = first.Next() })
		wait(refusedWait + time.Second)
		s.must(t, server)
		server.took()
		for began := time.Now(); time.Since(began) < time.Hour; wait(time.Second) {
			client.Decline(server.addr, "somebody has it")
		}
		if n := len(server.took()); n > 100 {
			t.Errorf("%d messages in an hour", n)
		}
	})
}

// inVirtualClient is inVirtualTime with a hand on the client.
func inVirtualClient(t *testing.T, test func(t *testing.T, client *Client, server *fakeServer, s *state), change ...func(*Config)) {
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				addresses := [len(lb.Families)]string{"192.0.2.100", "2001:db8::100"}
				server := &fakeServer{waiting: map[uint32]chan Heard{}, addr: netip.MustParseAddr(addresses[f]), life: time.Hour}
				var s state
				config := Config{Family: f, Identity: IdentityOf("shop/web"), Transport: server, Changed: s.changed}
				for _, c := range change {
					c(&config)
				}
				client := New(config)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { client.Run(ctx) })
				synctest.Wait()
				test(t, client, server, &s)
				cancel()
				running.Wait()
			})
		})
	}
}

// Of two servers on a LAN, the one that has not given an address knows nothing of
// it, and may say so before the other confirms it. It is believed only if the other
// says nothing.
func TestTakenOverBetweenTwoServers(t *testing.T) {
	for name, gone := range map[string]bool{"both": false, "the other is gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{waiting: map[uint32]chan Heard{}, addr: netip.MustParseAddr("192.0.2.100"), life: time.Hour, down: gone}
				pair := &twoServers{fakeServer: server}
				var s state
				client := New(Config{Family: lb.IPv4, Identity: IdentityOf("x"), Transport: pair, Changed: s.changed,
					Had: server.addr, HadUntil: time.Now().Add(time.Hour), HadServer: "192.0.2.1"})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { client.Run(ctx) })
				wait(time.Minute)
				l, err := s.now()
				if kept := l != nil && l.Addr == server.addr && l.Server != ""; kept == gone {
					t.Errorf("lease %+v, %v", l, err)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// twoServers has a second server that refuses what it has not given, and is
// faster than the first.
type twoServers struct{ *fakeServer }

func (s *twoServers) Send(f lb.Family, message []byte, to *Unicast) error {
	m, err := dhcpv4.FromBytes(message)
	if err != nil {
		return err
	}
	if m.MessageType() == dhcpv4.MessageTypeRequest && m.ServerIdentifier() == nil {
		no, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithOption(dhcpv4.OptServerIdentifier([]byte{192, 0, 2, 2})))
		if err != nil {
			return err
		}
		s.set(func() { s.waiting[binary.BigEndian.Uint32(m.TransactionID[:])] <- Heard{Message: no.ToBytes()} })
	}
	return s.fakeServer.Send(f, message, to)
}
