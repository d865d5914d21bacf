package bgp

import (
	"cmp"
	"net/netip"
	"slices"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"fairlead.io/internal/lb"
)

// maxAttributes is how many bytes the path attributes of a route may have: one UPDATE has to
// hold them and a prefix.
const maxAttributes = 3500

// defaultLocalPref is what routers assume.
const defaultLocalPref = 100

// attributes are path attributes as they go over the wire in one session.
type attributes struct {
	// key is equal for routes that can share an UPDATE; a route with another key is sent again.
	key string
	// hop is the next hop.
	hop  netip.Addr
	list []packet.PathAttributeInterface
	size int
}

// encoder makes path attributes for one session. Equal attributes are made once.
type encoder struct {
	agreed agreed
	hops   [len(lb.Families)]netip.Addr
	made   [len(lb.Families)]map[string]*attributes
	buf    []byte
}

func newEncoder(a agreed, hops [len(lb.Families)]netip.Addr) *encoder {
	e := &encoder{agreed: a, hops: hops}
	for f := range e.made {
		e.made[f] = map[string]*attributes{}
	}
	return e
}

func (e *encoder) encode(f lb.Family, a *Attributes) (*attributes, error) {
	e.buf = a.key(e.buf[:0])
	if made, ok := e.made[f][string(e.buf)]; ok {
		return made, nil
	}
	made, err := e.make(f, a)
	if err != nil {
		return nil, err
	}
	e.made[f][string(e.buf)] = made
	return made, nil
}

func (e *encoder) make(f lb.Family, a *Attributes) (*attributes, error) {
	out := &attributes{hop: e.hops[f]}
	out.list = append(out.list, packet.NewPathAttributeOrigin(packet.BGP_ORIGIN_ATTR_TYPE_IGP), e.path())
	if !viaMP(f, out.hop) {
		hop, err := packet.NewPathAttributeNextHop(out.hop)
		if err != nil {
			return nil, err
		}
		out.list = append(out.list, hop)
	}
	if e.agreed.internal() {
		pref := cmp.Or(a.LocalPref, defaultLocalPref)
		if a.Draining {
			pref = 0
		}
		out.list = append(out.list, packet.NewPathAttributeLocalPref(pref))
	}
	communities := slices.Clone(a.Communities)
	if a.Draining {
		communities = append(communities, GracefulShutdown)
	}
	if len(communities) > 0 {
		var values []uint32
		for _, c := range sorted(communities, cmp.Compare[Community]) {
			values = append(values, uint32(c))
		}
		out.list = append(out.list, packet.NewPathAttributeCommunities(values))
	}
	if !e.agreed.internal() && !e.agreed.FourOctets && e.agreed.LocalAS > 0xffff {
		out.list = append(out.list, packet.NewPathAttributeAs4Path([]*packet.As4PathParam{
			packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{e.agreed.LocalAS})}))
	}
	if len(a.LargeCommunities) > 0 {
		var values []*packet.LargeCommunity
		for _, c := range sorted(a.LargeCommunities, compareLarge) {
			values = append(values, packet.NewLargeCommunity(c.Global, c.Local1, c.Local2))
		}
		out.list = append(out.list, packet.NewPathAttributeLargeCommunities(values))
	}
	key := out.hop.AsSlice()
	for _, attribute := range out.list {
		b, err := attribute.Serialize()
		if err != nil {
			return nil, err
		}
		out.size += len(b)
		key = append(key, b...)
	}
	out.key = string(key)
	return out, nil
}

// path is AS_PATH: our AS, or nothing within it.
func (e *encoder) path() packet.PathAttributeInterface {
	var segments []packet.AsPathParamInterface
	switch as := e.agreed.LocalAS; {
	case e.agreed.internal():
	case e.agreed.FourOctets:
		segments = append(segments, packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{as}))
	default:
		if as > 0xffff {
			as = asTrans
		}
		segments = append(segments, packet.NewAsPathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, []uint16{uint16(as)}))
	}
	return packet.NewPathAttributeAsPath(segments)
}

// viaMP says whether prefixes travel in MP_REACH_NLRI: all but IPv4 with an IPv4 next hop.
func viaMP(f lb.Family, hop netip.Addr) bool { return f == lb.IPv6 || hop.Is6() }

// pack makes as few UPDATEs as possible that announce these prefixes, of one family and with
// these attributes.
func pack(f lb.Family, a *attributes, prefixes []netip.Prefix) ([][]byte, error) {
	room := maxMessage - headerSize - 4 - a.size
	if viaMP(f, a.hop) {
		room -= 4 + 5 + 16 // the attribute's header, family and next hop
	}
	var messages [][]byte
	for _, part := range parts(prefixes, room) {
		list, nlri := a.list, nlriOf(part)
		if viaMP(f, a.hop) {
			reach, err := packet.NewPathAttributeMpReachNLRI(families[f], nlri, a.hop.WithZone(""))
			if err != nil {
				return nil, err
			}
			list, nlri = append(slices.Clone(list), reach), nil
		}
		b, err := packet.NewBGPUpdateMessage(nil, list, nlri).Serialize()
		if err != nil {
			return nil, err
		}
		messages = append(messages, b)
	}
	return messages, nil
}

// packWithdrawals makes UPDATEs that withdraw these prefixes of one family.
func packWithdrawals(f lb.Family, hop netip.Addr, prefixes []netip.Prefix) ([][]byte, error) {
	var messages [][]byte
	for _, part := range parts(prefixes, maxMessage-headerSize-4-7) {
		m := packet.NewBGPUpdateMessage(nlriOf(part), nil, nil)
		if viaMP(f, hop) {
			unreach, err := packet.NewPathAttributeMpUnreachNLRI(families[f], nlriOf(part))
			if err != nil {
				return nil, err
			}
			m = packet.NewBGPUpdateMessage(nil, []packet.PathAttributeInterface{unreach}, nil)
		}
		b, err := m.Serialize()
		if err != nil {
			return nil, err
		}
		messages = append(messages, b)
	}
	return messages, nil
}

// endOfRIB says that everything of a family has been sent.
func endOfRIB(f lb.Family) ([]byte, error) { return packet.NewEndOfRib(families[f]).Serialize() }

// parts cuts a list into pieces that need at most room bytes each.
func parts(prefixes []netip.Prefix, room int) [][]netip.Prefix {
	var out [][]netip.Prefix
	from, used := 0, 0
	for i, p := range prefixes {
		size := 1 + (p.Bits()+7)/8
		if used+size > room && i > from {
			out = append(out, prefixes[from:i])
			from, used = i, 0
		}
		used += size
	}
	if from < len(prefixes) {
		out = append(out, prefixes[from:])
	}
	return out
}

func nlriOf(prefixes []netip.Prefix) []packet.PathNLRI {
	out := make([]packet.PathNLRI, len(prefixes))
	for i, p := range prefixes {
		out[i].NLRI = &packet.IPAddrPrefix{IPAddrPrefixDefault: packet.IPAddrPrefixDefault{Prefix: p}}
	}
	return out
}
