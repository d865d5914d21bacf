package bgp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"fairlead.io/internal/lb"
)

// node is a peer as nodes of these tests have it: AS 65010, with a router of AS 65001.
func node() Peer {
	return Peer{
		Address: netip.MustParseAddr("192.0.2.1"), LocalAS: 65010, PeerAS: 65001, RouterID: netip.MustParseAddr("192.0.2.11"),
		Hold: DefaultHold, Keepalive: DefaultKeepalive, DualStack: true, GracefulRestart: true,
	}
}

// theirs is the OPEN of a router that is like this peer of ours.
func theirs(t *testing.T, p Peer) *open {
	t.Helper()
	b, err := hello(p, lb.IPv4, false, false)
	if err != nil {
		t.Fatal(err)
	}
	o, f := readOpen(b[headerSize:])
	if f != nil {
		t.Fatal(f)
	}
	return o
}

// upstream is the peer that a router of node has in turn.
func upstream() Peer {
	p := node()
	p.LocalAS, p.PeerAS, p.RouterID = p.PeerAS, p.LocalAS, netip.MustParseAddr("192.0.2.1")
	return p
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		change func(*Peer)
		want   string
	}{
		{func(*Peer) {}, ""},
		{func(p *Peer) { p.LocalAS = 0 }, "local AS is missing"},
		{func(p *Peer) { p.PeerAS = 0 }, "AS of the router is missing"},
		{func(p *Peer) { p.PeerAS, p.ASRule = 0, ExternalAS }, ""},
		{func(p *Peer) { p.Interface = "eth0" }, "not both"},
		{func(p *Peer) { p.Address = netip.Addr{} }, "an address or an interface"},
		{func(p *Peer) { p.Address = netip.MustParseAddr("fe80::1") }, "no zone"},
		{func(p *Peer) { p.Source = netip.MustParseAddr("2001:db8::1") }, "not of the family"},
		{func(p *Peer) { p.Address = netip.MustParseAddr("::ffff:192.0.2.1") }, "written as IPv6"},
		{func(p *Peer) {
			p.Address, p.Interface, p.Source = netip.Addr{}, "eth0", netip.MustParseAddr("192.0.2.11")
		}, "no source address"},
		{func(p *Peer) { p.RouterID = netip.MustParseAddr("::1") }, "router ID"},
		{func(p *Peer) { p.Hold, p.Keepalive = 2*time.Second, 0 }, "invalid hold time"},
		{func(p *Peer) { p.Hold, p.Keepalive = 0, 0 }, ""},
		{func(p *Peer) { p.Hold = 3500 * time.Millisecond }, "invalid hold time"},
		{func(p *Peer) { p.Keepalive = 91 * time.Second }, "keepalive time"},
		{func(p *Peer) { p.Password = strings.Repeat("x", 81) }, "81 bytes"},
	} {
		p := node()
		test.change(&p)
		err := p.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", p, err, test.want)
		}
	}
}

func TestAgree(t *testing.T) {
	for _, test := range []struct {
		name    string
		ours    func(*Peer)
		theirs  func(*open)
		subcode uint8 // of a rejection
		check   func(agreed) bool
	}{
		{name: "plain", check: func(a agreed) bool {
			return a.PeerAS == 65001 && a.Hold == DefaultHold && a.Keepalive == DefaultKeepalive && a.Families == both && a.FourOctets && a.Refresh && a.GracefulRestart
		}},
		{name: "the shorter hold time counts", theirs: func(o *open) { o.hold = 9 * time.Second },
			check: func(a agreed) bool { return a.Hold == 9*time.Second && a.Keepalive == 3*time.Second }},
		{name: "a keepalive interval of ours", ours: func(p *Peer) { p.Keepalive = 5 * time.Second },
			check: func(a agreed) bool { return a.Hold == DefaultHold && a.Keepalive == 5*time.Second }},
		{name: "no keepalives", theirs: func(o *open) { o.hold = 0 }, check: func(a agreed) bool { return a.Hold == 0 && a.Keepalive == 0 }},
		{name: "hold time of 2 s", theirs: func(o *open) { o.hold = 2 * time.Second }, subcode: openHold},
		{name: "wrong AS", theirs: func(o *open) { o.as = 65003 }, subcode: openPeerAS},
		{name: "external", ours: func(p *Peer) { p.PeerAS, p.ASRule = 0, ExternalAS }, theirs: func(o *open) { o.as = 65003 },
			check: func(a agreed) bool { return a.PeerAS == 65003 }},
		{name: "external, but internal", ours: func(p *Peer) { p.ASRule = ExternalAS }, theirs: func(o *open) { o.as = 65010 }, subcode: openPeerAS},
		{name: "internal", ours: func(p *Peer) { p.ASRule = InternalAS }, theirs: func(o *open) { o.as = 65010 },
			check: func(a agreed) bool { return a.internal() }},
		{name: "AS 0", ours: func(p *Peer) { p.ASRule = ExternalAS }, theirs: func(o *open) { o.as = 0 }, subcode: openPeerAS},
		{name: "version 3", theirs: func(o *open) { o.version = 3 }, subcode: openVersion},
		{name: "ID 0", theirs: func(o *open) { o.id = netip.IPv4Unspecified() }, subcode: openID},
		{name: "our ID in our AS", ours: func(p *Peer) { p.ASRule = InternalAS }, theirs: func(o *open) { o.as, o.id = 65010, netip.MustParseAddr("192.0.2.11") }, subcode: openID},
		{name: "one family in common", theirs: func(o *open) { o.families = []packet.Family{packet.RF_IPv6_UC} },
			check: func(a agreed) bool { return a.Families == [2]bool{false, true} }},
		{name: "no family in common", ours: func(p *Peer) { p.DualStack = false }, theirs: func(o *open) { o.families = []packet.Family{packet.RF_IPv6_UC} }, subcode: openCapability},
		{name: "extended next hop needs both", ours: func(p *Peer) { p.ExtendedNextHop = true }, check: func(a agreed) bool { return !a.ExtendedNextHop }},
		{name: "extended next hop", ours: func(p *Peer) { p.ExtendedNextHop = true }, theirs: func(o *open) { o.extendedNextHop = true },
			check: func(a agreed) bool { return a.ExtendedNextHop }},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, o := node(), theirs(t, upstream())
			if test.ours != nil {
				test.ours(&p)
			}
			if test.theirs != nil {
				test.theirs(o)
			}
			a, f := agree(p, lb.IPv4, false, o)
			switch {
			case test.subcode != 0:
				if f == nil || f.Kind != Rejected || f.Code != codeOpen || f.Subcode != test.subcode || !f.sends() {
					t.Errorf("%+v, want a rejection with subcode %d", f, test.subcode)
				}
			case f != nil:
				t.Error(f)
			case !test.check(a):
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestHello(t *testing.T) {
	capabilities := func(p Peer, plain, restarting bool) map[packet.BGPCapabilityCode]packet.ParameterCapabilityInterface {
		b, err := hello(p, lb.IPv4, plain, restarting)
		if err != nil {
			t.Fatal(err)
		}
		m, err := packet.ParseBGPMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		out := map[packet.BGPCapabilityCode]packet.ParameterCapabilityInterface{}
		params := m.Body.(*packet.BGPOpen).OptParams
		if len(params) != 1 {
			t.Errorf("%d optional parameters", len(params))
		}
		for _, c := range params[0].(*packet.OptionParameterCapability).Capability {
			out[c.Code()] = c
		}
		return out
	}
	p := node()
	p.LocalAS, p.ExtendedNextHop = 4200000010, true
	full := capabilities(p, false, true)
	gr, ok := full[packet.BGP_CAP_GRACEFUL_RESTART].(*packet.CapGracefulRestart)
	if !ok || gr.Flags != 0x08 || gr.Time != 30 || len(gr.Tuples) != 2 || gr.Tuples[0].Flags != 0x80 || gr.Tuples[1].Flags != 0x80 {
		t.Errorf("graceful restart: %+v", gr)
	}
	if as := full[packet.BGP_CAP_FOUR_OCTET_AS_NUMBER].(*packet.CapFourOctetASNumber); as.CapValue != 4200000010 {
		t.Errorf("AS %d", as.CapValue)
	}
	if full[packet.BGP_CAP_EXTENDED_NEXTHOP] == nil || full[packet.BGP_CAP_ROUTE_REFRESH] == nil || full[packet.BGP_CAP_MULTIPROTOCOL] == nil {
		t.Errorf("capabilities: %v", full)
	}
	if gr := capabilities(p, false, false)[packet.BGP_CAP_GRACEFUL_RESTART].(*packet.CapGracefulRestart); gr.Flags != 0 {
		t.Errorf("flags %x of a process that does not restart", gr.Flags)
	}
	plain := capabilities(p, true, false)
	if len(plain) != 3 {
		t.Errorf("the plain OPEN has %v", plain)
	}
}

func TestBackoff(t *testing.T) {
	unreachable, full, open := &Failure{Kind: Unreachable}, &Failure{Kind: Full}, &Failure{Kind: Refused, Code: codeOpen, Subcode: openPeerAS}
	cease, capability := &Failure{Kind: Refused, Code: codeCease, Subcode: ceaseShutdown}, &Failure{Kind: Refused, Code: codeOpen, Subcode: openCapability}
	conflict := &Failure{Kind: Conflict, Code: codeCease, Subcode: ceaseCollision}
	var b backoff
	for i, step := range []struct {
		f           *Failure
		established time.Duration
		limit       time.Duration
		want        time.Duration
	}{
		{unreachable, 0, 0, time.Second}, {unreachable, 0, 0, 2 * time.Second}, {unreachable, 0, 0, 4 * time.Second}, {unreachable, 0, 0, 5 * time.Second}, {unreachable, 0, 0, 5 * time.Second},
		{unreachable, 0, 2 * time.Second, 2 * time.Second},
		{cease, time.Minute, 0, 0},           // a session that lasted
		{cease, time.Second, 0, time.Second}, // and one that did not
		{full, time.Minute, 0, 30 * time.Second}, {open, 0, 0, 30 * time.Second}, {open, 0, 7 * time.Second, 7 * time.Second},
		{conflict, 0, 0, time.Second}, {conflict, 0, 0, 5 * time.Second}, // the first may be with our own session
		{capability, 0, 0, 0}, {capability, 0, 0, 30 * time.Second}, // once more without capabilities
		{farewell(ceaseBFD, "", nil), time.Second, 0, 0},
	} {
		if got := b.after(step.f, step.established, step.limit, 0); got != step.want {
			t.Errorf("step %d, %v: %v, want %v", i, step.f.Kind, got, step.want)
		}
	}
	if got := (&backoff{}).after(unreachable, 0, 0, 0.999); got <= time.Second || got > 1250*time.Millisecond {
		t.Errorf("with jitter: %v", got)
	}
}

func TestRefusalsHaveTheRoutersWords(t *testing.T) {
	for _, test := range []struct {
		code, subcode uint8
		data          []byte
		kind          Kind
		text          string
	}{
		{2, 2, nil, Refused, "the router ended the session: OPEN message error, bad peer AS (2/2)"},
		{6, 2, communicate("maintenance until 9"), Refused, `the router ended the session: cease, administrative shutdown (6/2). It says: "maintenance until 9"`},
		{6, 2, []byte{200, 'x'}, Refused, "the router ended the session: cease, administrative shutdown (6/2)"},
		{6, 4, []byte{2, 0xff, 0xfe}, Refused, "the router ended the session: cease, administrative reset (6/4)"},
		{6, 1, []byte{0, 1, 1, 0, 0, 0, 10}, Full, "the router ended the session: cease, maximum number of prefixes reached (6/1). It takes at most 10 prefixes of this family"},
		{6, 7, nil, Conflict, "the router ended the session: cease, connection collision resolution (6/7). Another BGP speaker on this node may have the session"},
		{99, 98, nil, Refused, "the router ended the session: unknown error (99/98)"},
	} {
		f := refusal(test.code, test.subcode, test.data)
		if f.Kind != test.kind || f.Text != test.text {
			t.Errorf("%d/%d: %v, %s", test.code, test.subcode, f.Kind, f.Text)
		}
	}
	if b := communicate(strings.Repeat("ü", 200)); len(b) != 255 || int(b[0]) != 254 || communication(b) != strings.Repeat("ü", 127) {
		t.Errorf("a long text becomes %d bytes, %q", len(b), communication(b))
	}
}
