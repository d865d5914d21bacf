package config

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"fairlead.io/internal/lb"
)

// Variables of kube-vip's own DaemonSet about BGP.
const (
	envBGP              = "bgp_enable"
	envBGPRouterID      = "bgp_routerid"
	envBGPRouterIface   = "bgp_routerinterface"
	envBGPAS            = "bgp_as"
	envBGPPeerAddress   = "bgp_peeraddress"
	envBGPPeerAS        = "bgp_peeras"
	envBGPPeerPassword  = "bgp_peerpass"
	envBGPMultihop      = "bgp_multihop"
	envBGPSourceIP      = "bgp_sourceip"
	envBGPSourceIface   = "bgp_sourceif"
	envBGPHold          = "bgp_hold_time"
	envBGPKeepalive     = "bgp_keepalive_interval"
	envBGPPeers         = "bgp_peers"
	envMPBGPNextHop     = "mpbgp_nexthop"
	envMPBGPIPv4        = "mpbgp_ipv4"
	envMPBGPIPv6        = "mpbgp_ipv6"
	envBGPAnnotations   = "annotations"
	defaultBGPAS        = 65000
	bgpRetry            = 10 * time.Second
	unnumberedPeer      = "unnumbered:"
	annotatedPeerPrefix = "bgp-peers-"
)

// KubeVIPBGP is what kube-vip's environment says about BGP.
type KubeVIPBGP struct {
	Peers []lb.Peer
	// Annotations, if set, is the prefix of the Node's annotations, whose peers replace those
	// of the list; see Annotated.
	Annotations string

	common lb.Peer
}

// KubeVIPBGPFrom reads environ, which is as os.Environ has it. It returns nil if BGP is not
// enabled.
func KubeVIPBGPFrom(environ []string) (*KubeVIPBGP, error) {
	set := settings(environ)
	if on, err := boolean(set, envBGP, false); err != nil || !on {
		return nil, err
	}
	out := &KubeVIPBGP{Annotations: set[envBGPAnnotations]}
	var err error
	if out.common, err = commonPeer(set); err != nil {
		return nil, err
	}
	if set[envBGPPeerAddress] != "" {
		one, err := singlePeer(set, out.common)
		if err != nil {
			return nil, err
		}
		out.Peers = append(out.Peers, one)
	}
	if list := set[envBGPPeers]; list != "" {
		for i, entry := range strings.Split(list, ",") {
			p, err := listedPeer(strings.TrimSpace(entry), out.common)
			if err != nil {
				return nil, fmt.Errorf("$%s: entry %d: %w", envBGPPeers, i+1, err)
			}
			out.Peers = append(out.Peers, p)
		}
	}
	for i := range out.Peers {
		if p, err := finishPeer(out.Peers[i]); err != nil {
			return nil, err
		} else if out.Peers[i] = p; hasName(out.Peers[:i], p.Name) {
			return nil, fmt.Errorf("$%s and $%s name peer %s twice", envBGPPeerAddress, envBGPPeers, p.Name)
		}
	}
	if len(out.Peers) == 0 && out.Annotations == "" {
		return nil, fmt.Errorf("$%s is true, but neither $%s nor $%s names a peer", envBGP, envBGPPeerAddress, envBGPPeers)
	}
	return out, nil
}

func hasName(peers []lb.Peer, name string) bool {
	for _, p := range peers {
		if p.Name == name {
			return true
		}
	}
	return false
}

// commonPeer has what all peers have.
func commonPeer(set map[string]string) (lb.Peer, error) {
	out := lb.Peer{Port: 179, ConnectTime: bgpRetry, RouterIDInterface: set[envBGPRouterIface], SourceInterface: set[envBGPSourceIface]}
	var err error
	if out.LocalAS, err = asNumber(cmp.Or(set[envBGPAS], strconv.Itoa(defaultBGPAS))); err != nil {
		return out, fmt.Errorf("$%s: %w", envBGPAS, err)
	}
	if out.RouterID, err = address(set[envBGPRouterID]); err != nil || out.RouterID.IsValid() && !out.RouterID.Is4() {
		return out, fmt.Errorf("$%s is %q, must be an IPv4 address", envBGPRouterID, set[envBGPRouterID])
	}
	if out.Source, err = address(set[envBGPSourceIP]); err != nil {
		return out, fmt.Errorf("$%s: %w", envBGPSourceIP, err)
	}
	if out.Source.IsValid() && out.SourceInterface != "" {
		return out, fmt.Errorf("$%s and $%s are both set; remove one of them", envBGPSourceIP, envBGPSourceIface)
	}
	for _, t := range []struct {
		name  string
		other int
		into  *time.Duration
	}{{envBGPHold, 30, &out.Hold}, {envBGPKeepalive, 10, &out.Keepalive}} {
		seconds, err := strconv.ParseUint(cmp.Or(set[t.name], strconv.Itoa(t.other)), 10, 16)
		if err != nil {
			return out, fmt.Errorf("$%s is %q, must be a number of seconds", t.name, set[t.name])
		}
		*t.into = time.Duration(seconds) * time.Second
	}
	if out.Hold > 0 && out.Hold < 3*time.Second || out.Keepalive > out.Hold {
		return out, fmt.Errorf("$%s is %s, must be 0 or at least 3, and not less than $%s, %s", envBGPHold, out.Hold, envBGPKeepalive, out.Keepalive)
	}
	options := map[string]string{}
	for _, name := range []string{envMPBGPNextHop, envMPBGPIPv4, envMPBGPIPv6} {
		if set[name] != "" {
			options[name] = set[name]
		}
	}
	return out, nextHops(&out, options)
}

// nextHops reads the options of multiprotocol BGP: with them both families are announced.
func nextHops(p *lb.Peer, options map[string]string) error {
	for name, text := range options {
		switch name {
		case envMPBGPNextHop:
			switch text {
			case "fixed", "auto_sourceip", "auto_sourceif": // the last two are what we do anyway
				p.DualStack = true
			default:
				return fmt.Errorf("%s is %q, must be fixed, auto_sourceip or auto_sourceif", name, text)
			}
		case envMPBGPIPv4, envMPBGPIPv6:
			f := map[string]lb.Family{envMPBGPIPv4: lb.IPv4, envMPBGPIPv6: lb.IPv6}[name]
			a, err := address(text)
			if err != nil || lb.FamilyOf(a) != f {
				return fmt.Errorf("%s is %q, must be an %s address", name, text, f)
			}
			p.NextHops[f] = a
		default:
			return fmt.Errorf("%q is none of the options %s, %s and %s", name, envMPBGPNextHop, envMPBGPIPv4, envMPBGPIPv6)
		}
	}
	if options[envMPBGPNextHop] == "fixed" && p.NextHops == ([len(lb.Families)]netip.Addr{}) {
		return fmt.Errorf("%s is fixed, but neither %s nor %s is set", envMPBGPNextHop, envMPBGPIPv4, envMPBGPIPv6)
	}
	if options[envMPBGPNextHop] != "fixed" {
		p.NextHops = [len(lb.Families)]netip.Addr{}
	}
	return nil
}

// singlePeer reads the variables of the one peer.
func singlePeer(set map[string]string, common lb.Peer) (lb.Peer, error) {
	out := common
	out.Password = set[envBGPPeerPassword]
	var err error
	if out.Address, err = address(set[envBGPPeerAddress]); err != nil {
		return out, fmt.Errorf("$%s: %w", envBGPPeerAddress, err)
	}
	if out.PeerAS, err = asNumber(cmp.Or(set[envBGPPeerAS], strconv.Itoa(defaultBGPAS))); err != nil {
		return out, fmt.Errorf("$%s: %w", envBGPPeerAS, err)
	}
	out.Multihop, err = boolean(set, envBGPMultihop, false)
	return out, err
}

// finishPeer checks what parts of a peer mean together, and names it.
func finishPeer(p lb.Peer) (lb.Peer, error) {
	p.Name = p.Interface
	if p.Address.IsValid() {
		p.Name = p.Address.String()
		if p.Source.IsValid() && lb.FamilyOf(p.Source) != lb.FamilyOf(p.Address) {
			p.Source = netip.Addr{} // it is for the peers of its family
		}
	}
	if len(p.Password) > 80 {
		return p, fmt.Errorf("the password of BGP peer %s has %d bytes; the kernel takes 80", p.Name, len(p.Password))
	}
	return p, nil
}

// ErrNotAnnotated says that a Node has no annotations about BGP yet.
var ErrNotAnnotated = errors.New("the Node has no annotations about BGP yet")

// Annotated returns the peers that a Node's annotations name instead of the list.
func (b *KubeVIPBGP) Annotated(annotations map[string]string) ([]lb.Peer, error) {
	get := func(name string) string {
		return cmp.Or(annotations[b.Annotations+"/"+annotatedPeerPrefix+"0-"+name], annotations[b.Annotations+"/"+name])
	}
	common := b.common
	if get("node-asn") == "" || get("peer-asn") == "" {
		return nil, ErrNotAnnotated
	}
	var err error
	if common.LocalAS, err = asNumber(get("node-asn")); err != nil {
		return nil, fmt.Errorf("annotation node-asn: %w", err)
	}
	if common.PeerAS, err = asNumber(get("peer-asn")); err != nil {
		return nil, fmt.Errorf("annotation peer-asn: %w", err)
	}
	if text := get("src-ip"); text != "" {
		if common.Source, err = address(text); err != nil {
			return nil, fmt.Errorf("annotation src-ip: %w", err)
		}
		common.SourceInterface = ""
		if common.Source.Is4() {
			common.RouterID, common.RouterIDInterface = common.Source, ""
		}
	}
	password, err := base64.StdEncoding.DecodeString(get("bgp-pass"))
	if err != nil {
		return nil, errors.New("annotation bgp-pass is not base64")
	}
	common.Password = string(password)
	if text := get("peer-multi-hop"); text != "" {
		if common.Multihop, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("annotation peer-multi-hop is %q, must be true or false", text)
		}
	}
	var out []lb.Peer
	for i := 0; ; i++ {
		text, more := annotations[fmt.Sprintf("%s/%s%d-peer-ip", b.Annotations, annotatedPeerPrefix, i)]
		if !more && i == 0 {
			text, more = annotations[b.Annotations+"/peer-ip"]
		}
		if !more {
			break
		}
		for one := range strings.SplitSeq(text, ",") {
			p := common
			if p.Address, err = address(strings.TrimSpace(one)); err != nil || !p.Address.IsValid() {
				return nil, fmt.Errorf("annotation peer-ip: %q is not an IP address", one)
			}
			if p, err = finishPeer(p); err != nil {
				return nil, err
			}
			if !hasName(out, p.Name) {
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, ErrNotAnnotated
	}
	return out, nil
}
