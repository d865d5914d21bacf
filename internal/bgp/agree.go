package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"fairlead.io/internal/lb"
)

const (
	version = 4
	// asTrans stands for an AS number of more than 16 bits where only 16 fit (RFC 6793).
	asTrans = 23456
)

// families of the codec.
var families = [len(lb.Families)]packet.Family{lb.IPv4: packet.RF_IPv4_UC, lb.IPv6: packet.RF_IPv6_UC}

// agreed is what both sides of a session have said.
type agreed struct {
	LocalAS, PeerAS uint32
	RouterID        netip.Addr // the router's
	Hold, Keepalive time.Duration
	Families        [len(lb.Families)]bool
	// FourOctets: AS numbers have 32 bits in AS_PATH.
	FourOctets bool
	// ExtendedNextHop: IPv4 prefixes may have IPv6 next hops.
	ExtendedNextHop bool
	// Refresh: the router may ask for everything again.
	Refresh bool
	// GracefulRestart: the router keeps our routes while we restart.
	GracefulRestart bool
}

func (a *agreed) internal() bool { return a.LocalAS == a.PeerAS }

// hello is our OPEN. plain leaves out what routers may not know; restarting says that an
// earlier process had routes, which the router may still have.
func hello(p Peer, own lb.Family, plain, restarting bool) ([]byte, error) {
	var capabilities []packet.ParameterCapabilityInterface
	var kept []*packet.CapGracefulRestartTuple
	for f, spoken := range p.families(own) {
		if spoken {
			capabilities = append(capabilities, packet.NewCapMultiProtocol(families[f]))
			kept = append(kept, packet.NewCapGracefulRestartTuple(families[f], true))
		}
	}
	capabilities = append(capabilities, packet.NewCapRouteRefresh(), packet.NewCapFourOctetASNumber(p.LocalAS))
	if p.extendedNextHop() && !plain {
		capabilities = append(capabilities, packet.NewCapExtendedNexthop([]*packet.CapExtendedNexthopTuple{
			packet.NewCapExtendedNexthopTuple(packet.RF_IPv4_UC, packet.AFI_IP6)}))
	}
	if p.GracefulRestart && !plain {
		// Never the N bit: with it routers keep routes beyond the hold time and beyond a Cease.
		capabilities = append(capabilities, packet.NewCapGracefulRestart(restarting, false, uint16(restartTime/time.Second), kept))
	}
	as := uint16(asTrans)
	if p.LocalAS <= 0xffff {
		as = uint16(p.LocalAS)
	}
	m, err := packet.NewBGPOpenMessage(as, uint16(p.Hold/time.Second), p.RouterID,
		[]packet.OptionParameterInterface{packet.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return nil, err
	}
	return m.Serialize()
}

// agree compares the router's OPEN with ours.
func agree(p Peer, own lb.Family, plain bool, o *open) (agreed, *Failure) {
	a := agreed{LocalAS: p.LocalAS, PeerAS: o.as, RouterID: o.id, FourOctets: o.fourOctets, Refresh: o.refresh}
	reject := func(subcode uint8, data []byte, format string, args ...any) (agreed, *Failure) {
		return a, &Failure{Kind: Rejected, Code: codeOpen, Subcode: subcode, data: data, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case o.version != version:
		return reject(openVersion, []byte{0, version}, "the router speaks BGP version %d, not 4", o.version)
	case o.as == 0 || !p.allows(o.as):
		return reject(openPeerAS, nil, "bad peer AS: the router says it is AS %d; configured is %s", o.as, p.expectedAS())
	case o.hold > 0 && o.hold < 3*time.Second:
		return reject(openHold, nil, "the router asks for a hold time of %v; at least 3s are needed", o.hold)
	case o.id.IsUnspecified():
		return reject(openID, nil, "the router has the ID 0.0.0.0")
	case o.id == p.RouterID && a.internal():
		return reject(openID, nil, "the router has the ID of this node, %v", o.id)
	}
	spoken := p.families(own)
	for f := range spoken {
		a.Families[f] = spoken[f] && slices.Contains(o.families, families[f])
	}
	if a.Families == [len(lb.Families)]bool{} {
		return reject(openCapability, nil, "the router does not speak %s", namesOf(spoken))
	}
	a.Hold = min(p.Hold, o.hold)
	if a.Hold > 0 {
		a.Keepalive = a.Hold / 3
		if p.Keepalive > 0 {
			a.Keepalive = min(a.Keepalive, p.Keepalive)
		}
	}
	a.ExtendedNextHop = p.extendedNextHop() && !plain && o.extendedNextHop
	a.GracefulRestart = p.GracefulRestart && !plain && o.gracefulRestart
	return a, nil
}

func namesOf(set [len(lb.Families)]bool) string {
	switch {
	case set[lb.IPv4] && set[lb.IPv6]:
		return "IPv4 or IPv6"
	case set[lb.IPv4]:
		return lb.IPv4.String()
	default:
		return lb.IPv6.String()
	}
}
