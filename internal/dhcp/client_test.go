package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/test/kit/leak"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fakeServer is a transport with a server at its other end, which can be told
// what to do.
type fakeServer struct {
	mu      sync.Mutex
	waiting map[uint32]chan Heard
	down    bool
	refuse  bool
	addr    netip.Addr
	life    time.Duration
	got     []string // messages by their types, "unicast " before those to one server
	raw     [][]byte // all of them, as they were sent
	// bend changes answers before they are sent; copies is how often.
	bend4  func(*dhcpv4.DHCPv4)
	bend6  func(*dhcpv6.Message)
	copies int
	fickle bool // takes back what it gave, and has it renewed at once
}

func (s *fakeServer) Listen(_ lb.Family, transaction uint32) (<-chan Heard, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan Heard, 8)
	s.waiting[transaction] = c
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, transaction)
	}
}

func (s *fakeServer) Send(f lb.Family, message []byte, to *Unicast) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answer4
	if f == lb.IPv6 {
		answer = s.answer6
	}
	name, transaction, reply := answer(message)
	if to != nil {
		name = "unicast " + name
	}
	s.got, s.raw = append(s.got, name), append(s.raw, message)
	for range s.copies + 1 {
		if c := s.waiting[transaction]; c != nil && reply != nil && !s.down {
			select { // as Port does
			case c <- Heard{reply, []byte{2, 0, 0, 0, 0, 1}}:
			default:
			}
		}
	}
	return nil
}

func (s *fakeServer) answer4(message []byte) (string, uint32, []byte) {
	m, err := dhcpv4.FromBytes(message)
	if err != nil {
		panic(err)
	}
	var t dhcpv4.MessageType
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		t = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest:
		t = dhcpv4.MessageTypeAck
		if s.refuse || s.fickle && m.ServerIdentifier() == nil {
			t = dhcpv4.MessageTypeNak
		}
	default:
		return m.MessageType().String(), 0, nil
	}
	r, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(t), dhcpv4.WithYourIP(s.addr.AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier([]byte{192, 0, 2, 1})), dhcpv4.WithLeaseTime(uint32(s.life/time.Second)))
	if err != nil {
		panic(err)
	}
	if s.fickle {
		r.UpdateOption(dhcpv4.Option{Code: dhcpv4.OptionRenewTimeValue, Value: dhcpv4.Duration(time.Second)})
	}
	if s.bend4 != nil {
		s.bend4(r)
	}
	return m.MessageType().String(), binary.BigEndian.Uint32(m.TransactionID[:]), r.ToBytes()
}

func (s *fakeServer) answer6(message []byte) (string, uint32, []byte) {
	m, err := dhcpv6.MessageFromBytes(message)
	if err != nil {
		panic(err)
	}
	x := m.TransactionID
	r := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: x}
	switch m.MessageType {
	case dhcpv6.MessageTypeSolicit:
		r.MessageType = dhcpv6.MessageTypeAdvertise
	case dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		return m.MessageType.String(), 0, nil
	default: // all others are replied to
	}
	r.AddOption(dhcpv6.OptClientID(m.Options.ClientID()))
	r.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDOpaque{Type: 9, Data: []byte{1, 2, 3}}))
	ia := &dhcpv6.OptIANA{IaId: m.Options.OneIANA().IaId, T1: s.life / 2, T2: s.life * 7 / 8}
	if s.fickle {
		ia.T1 = time.Second
	}
	if s.refuse || s.fickle && (m.MessageType == dhcpv6.MessageTypeRenew || m.MessageType == dhcpv6.MessageTypeRebind) {
		ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoBinding})
	} else {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: s.addr.AsSlice(), ValidLifetime: s.life, PreferredLifetime: s.life})
	}
	r.AddOption(ia)
	if s.bend6 != nil {
		s.bend6(r)
	}
	return m.MessageType.String(), uint32(x[0])<<16 | uint32(x[1])<<8 | uint32(x[2]), r.ToBytes()
}

func (s *fakeServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// took returns the messages since the last call.
func (s *fakeServer) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// state is what a client says last.
type state struct {
	mu    sync.Mutex
	lease *Lease
	err   error
	times int
}

func (s *state) changed(l *Lease, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.err = l, err
	s.times++
}

// changes returns how often something has changed since the last call.
func (s *state) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.times = 0 }()
	return s.times
}

func (s *state) now() (*Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease, s.err
}

// inVirtualTime runs a client against a server in each family; test may change
// the server and let time pass.
func inVirtualTime(t *testing.T, had bool, life time.Duration, test func(t *testing.T, server *fakeServer, s *state)) {
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				addresses := [len(lb.Families)]string{"192.0.2.100", "2001:db8::100"}
				server := &fakeServer{waiting: map[uint32]chan Heard{}, addr: netip.MustParseAddr(addresses[f]), life: life}
				var s state
				c := Config{Family: f, Identity: IdentityOf("shop/web"), Transport: server, Changed: s.changed}
				if had {
					c.Had, c.HadUntil = server.addr, time.Now().Add(life)
				}
				client := New(c)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { client.Run(ctx) })
				synctest.Wait()
				test(t, server, &s)
				cancel()
				running.Wait()
			})
		})
	}
}

func (s *state) must(t *testing.T, server *fakeServer) *Lease {
	t.Helper()
	synctest.Wait()
	l, err := s.now()
	if l == nil || l.Addr != server.addr || err != nil {
		t.Fatalf("lease %+v, %v", l, err)
	}
	return l
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A lease is renewed at half its time with the server that gave it, and its times
// are counted anew from then.
func TestRenewal(t *testing.T) {
	inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		first := s.must(t, server)
		server.took()
		wait(29 * time.Minute)
		if got := server.took(); len(got) > 0 {
			t.Fatalf("too early: %v", got)
		}
		for range 5 {
			wait(30 * time.Minute)
			if got := server.took(); len(got) != 1 {
				t.Fatalf("messages %v, want one", got)
			}
			if l := s.must(t, server); !l.Until.After(first.Until) {
				t.Fatalf("until %s, as before", l.Until)
			} else {
				first = l
			}
		}
	})
}

// In IPv4 the request for what was offered has the transaction, and the seconds, of
// the offer: servers may drop others. In IPv6 it is a new transaction. So is every
// renewal.
func TestTransactions(t *testing.T) {
	inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		s.must(t, server)
		wait(31 * time.Minute)
		s.must(t, server)
		server.mu.Lock()
		defer server.mu.Unlock()
		if len(server.raw) != 3 {
			t.Fatalf("messages %v", server.got)
		}
		from, to, same := 1, 4, false // msg-type, then transaction-id
		if server.addr.Is4() {
			from, to, same = 4, 10, true // op, htype, hlen, hops, then xid and secs
		}
		part := func(i int) string { return string(server.raw[i][from:to]) }
		if (part(0) == part(1)) != same {
			t.Errorf("%s has % x, %s has % x", server.got[0], part(0), server.got[1], part(1))
		}
		if part(1) == part(2) {
			t.Errorf("%s has % x as %s", server.got[2], part(2), server.got[1])
		}
	})
}

// A server that is away for less than the rest of the lease is not noticed; one
// that is away for longer costs the address, and gives it back when it returns.
func TestServerGoneAndBack(t *testing.T) {
	inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		s.must(t, server)
		server.set(func() { server.down = true })
		wait(55 * time.Minute)
		if l, err := s.now(); l == nil || !errors.Is(err, ErrNoServer) {
			t.Fatalf("before the end: %+v, %v", l, err)
		}
		server.set(func() { server.down = false })
		wait(2 * time.Minute)
		s.must(t, server)

		server.set(func() { server.down = true })
		wait(2 * time.Hour)
		if l, err := s.now(); l != nil || !errors.Is(err, ErrNoServer) {
			t.Fatalf("after the end: %+v, %v", l, err)
		}
		server.set(func() { server.down = false })
		wait(2 * time.Minute)
		s.must(t, server)
	})
}

// A server that takes the address back is obeyed at once, and asked for another.
func TestRefused(t *testing.T) {
	inVirtualTime(t, false, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		s.must(t, server)
		server.set(func() { server.refuse = true })
		wait(31 * time.Minute)
		if l, err := s.now(); l != nil || err == nil {
			t.Fatalf("%+v, %v", l, err)
		}
		server.set(func() { server.refuse, server.addr = false, server.addr.Next() })
		wait(maxRefusedWait)
		s.must(t, server)
	})
}

// The address of another node is used at once, and confirmed; if nobody answers
// it is used until its lease ends.
func TestTakenOver(t *testing.T) {
	inVirtualTime(t, true, time.Hour, func(t *testing.T, server *fakeServer, s *state) {
		if l := s.must(t, server); l.Server == "" {
			t.Fatalf("not confirmed: %+v", l)
		}
		if got := server.took(); len(got) != 1 {
			t.Fatalf("messages %v, want one", got)
		}
	})
}

func TestTakenOverWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{waiting: map[uint32]chan Heard{}, addr: netip.MustParseAddr("192.0.2.100"), life: time.Hour, down: true}
		var s state
		client := New(Config{Family: lb.IPv4, Identity: IdentityOf("shop/web"), Transport: server, Changed: s.changed, Had: server.addr, HadUntil: time.Now().Add(10 * time.Minute)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { client.Run(ctx) })
		wait(9 * time.Minute)
		if l, _ := s.now(); l == nil || l.Addr != server.addr {
			t.Fatalf("lost before its time: %+v", l)
		}
		wait(2 * time.Minute)
		if l, err := s.now(); l != nil || !errors.Is(err, ErrNoServer) {
			t.Fatalf("kept beyond its time: %+v, %v", l, err)
		}
		cancel()
		running.Wait()
	})
}

// A lease for ever is never renewed.
func TestForever(t *testing.T) {
	inVirtualTime(t, false, forever, func(t *testing.T, server *fakeServer, s *state) {
		if l := s.must(t, server); !l.Until.IsZero() {
			t.Fatalf("until %s", l.Until)
		}
		server.took()
		wait(100 * 24 * time.Hour)
		if got := server.took(); len(got) > 0 {
			t.Fatalf("messages %v", got)
		}
	})
}

// What is released is released to the server that gave it.
func TestRelease(t *testing.T) {
	for _, f := range lb.Families {
		synctest.Test(t, func(t *testing.T) {
			addresses := [len(lb.Families)]string{"192.0.2.100", "2001:db8::100"}
			server := &fakeServer{waiting: map[uint32]chan Heard{}, addr: netip.MustParseAddr(addresses[f]), life: time.Hour}
			var s state
			client := New(Config{Family: f, Identity: IdentityOf("x"), Transport: server, Changed: s.changed})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { client.Run(ctx) })
			s.must(t, server)
			cancel()
			running.Wait()
			server.took()
			if err := client.Release(); err != nil {
				t.Fatal(err)
			}
			want := [len(lb.Families)]string{"unicast RELEASE", "RELEASE"}[f]
			if got := server.took(); len(got) != 1 || got[0] != want {
				t.Fatalf("%s: messages %v, want %s", f, got, want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	a, again, b := IdentityOf("shop/web"), IdentityOf("shop/web"), IdentityOf("shop/other")
	if a.ID != again.ID || a.MAC.String() != again.MAC.String() {
		t.Error("one name, two identities")
	}
	if a.ID == b.ID || a.MAC.String() == b.MAC.String() {
		t.Error("two names, one identity")
	}
	if a.MAC[0]&3 != 2 {
		t.Errorf("MAC %s is not one assigned locally", a.MAC)
	}
}

func TestDatagram(t *testing.T) {
	for _, d := range []datagram{
		{toMAC: wires[lb.IPv4].serversMAC, fromMAC: [6]byte{2, 0, 0, 0, 0, 1}, from: netip.MustParseAddrPort("0.0.0.0:68"), to: wires[lb.IPv4].servers, payload: []byte("odd")},
		{toMAC: wires[lb.IPv6].serversMAC, fromMAC: [6]byte{2, 0, 0, 0, 0, 1}, from: netip.MustParseAddrPort("[fe80::1]:546"), to: wires[lb.IPv6].servers, payload: []byte("even")},
	} {
		got, ok := decode(d.frame())
		if !ok || got.from != d.from || got.to != d.to || got.toMAC != d.toMAC || string(got.payload) != string(d.payload) {
			t.Errorf("%+v was read as %+v", d, got)
		}
	}
}

// FuzzDecode: no frame makes it fail, nor reach beyond the frame.
func FuzzDecode(f *testing.F) {
	d := datagram{from: netip.MustParseAddrPort("0.0.0.0:68"), to: wires[lb.IPv4].servers, payload: []byte("x")}
	f.Add(d.frame())
	f.Fuzz(func(t *testing.T, frame []byte) {
		if d, ok := decode(frame); ok && len(d.payload) > len(frame)-ethernetLen-udpLen {
			t.Errorf("%d bytes from %d", len(d.payload), len(frame))
		}
	})
}

// FuzzParse: whatever a server says, an address that comes of it is one that a
// host can have.
func FuzzParse(f *testing.F) {
	id := IdentityOf("x")
	f.Add([]byte{}, uint32(0), uint8(0))
	for _, family := range lb.Families { // what a server says
		server := &fakeServer{addr: netip.MustParseAddr([...]string{"192.0.2.100", "2001:db8::100"}[family]), life: time.Hour}
		answer := [...]func([]byte) (string, uint32, []byte){server.answer4, server.answer6}[family]
		for p, l := range []*Lease{nil, {Addr: server.addr}} {
			m, _ := speakers[family](id).compose(phase(p), 7, l, 0)
			if p == int(request) && family == lb.IPv4 {
				m, _ = speakers[family](id).compose(rebind, 7, l, 0)
			}
			_, transaction, reply := answer(m)
			f.Add(reply, transaction, uint8(p))
		}
	}
	f.Fuzz(func(t *testing.T, message []byte, transaction uint32, p uint8) {
		for _, family := range lb.Families {
			a, ok := speakers[family](id).parse(phase(p%4), transaction, Heard{Message: message})
			if ok && (a.kind == offer || a.kind == ack) && (lb.FamilyOf(a.addr) != family || a.life < shortest || lb.Unusable(netipx.IPRangeFrom(a.addr, a.addr)) != "") {
				t.Errorf("%s from %x", a.addr, message)
			}
		}
	})
}
