package metallb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// AnnotationMaxPrefixes on a BGPPeer limits how many prefixes of each family are announced
// to it. It is ours: MetalLB has nothing like it.
const AnnotationMaxPrefixes = "fairlead.io/max-prefixes"

// Secrets with a password have this type and this key.
const (
	SecretType = "kubernetes.io/basic-auth"
	SecretKey  = "password"
)

const (
	bgpPort = 179
	// Timers for peers that choose none, as in MetalLB's native mode.
	defaultHold, defaultKeepalive = 90 * time.Second, 30 * time.Second
	// maxPassword is the longest key of TCP-MD5 that the kernel takes, in bytes.
	maxPassword = 80
)

// peers returns those that can be used, by name.
func (b *BGP) peers(profiles map[string]*lb.BFD, next *Former, tell teller) []lb.Peer {
	var out []lb.Peer
	for _, o := range readAll[metallb.BGPPeerSpec](b, KindPeer, b.Peers, tell) { // the oldest first
		p, told := b.usable(&o)
		if p == nil {
			tell(KindPeer, &o.ObjectMeta, *told)
			continue
		}
		if older := slices.IndexFunc(out, func(q lb.Peer) bool { return p.SameSession(&q) && b.shareNode(&p.Peer, &q) }); older >= 0 {
			tell(KindPeer, &o.ObjectMeta, Reasons.With(PeerDuplicate, out[older].Name))
			continue
		}
		if p.Waiting == "" {
			next.peers[o.UID] = *p
		}
		if name := p.profile; name != "" {
			profile, why := b.profile(name, profiles)
			if told == nil {
				told = why
			}
			if p.BFD = profile; profile != nil {
				next.profiles[name] = profile
			}
		}
		if told != nil {
			tell(KindPeer, &o.ObjectMeta, *told)
		}
		out = append(out, p.Peer)
	}
	slices.SortFunc(out, func(p, q lb.Peer) int { return strings.Compare(p.Name, q.Name) })
	return out
}

// usable returns a peer as it can be used, or as it could before; nil if it never could. told is
// what is wrong with it.
func (b *BGP) usable(o *stored[metallb.BGPPeerSpec]) (*formerPeer, *lb.Reason) {
	is, unread, wrong := b.peer(o)
	was, had := b.Former.peers[o.UID]
	had = had && o.UID != ""
	p := &formerPeer{is, o.spec.BFDProfile}
	wrong = o.faults(wrong)
	broken := len(wrong) > 0
	if unread != "" && len(o.wrong) == 0 {
		wrong.add("%s", unread)
	}
	if len(wrong) == 0 {
		return p, nil
	}
	told := Reasons.With(PeerInvalid, strings.Join(wrong, "; "))
	switch {
	case !broken && had && was.Password != "":
		p.Password = was.Password
	case had:
		p = &was
	case broken:
		return nil, &told
	case b.SecretsUnread != "":
		p.Waiting = unread
		return p, &told
	default:
		return nil, &told
	}
	told = told.And(Reasons.With(PeerKept))
	return p, &told
}

// profile returns what a peer uses, and what there is to tell about it.
func (b *BGP) profile(name string, profiles map[string]*lb.BFD) (*lb.BFD, *lb.Reason) {
	profile, known := profiles[name]
	if profile != nil {
		return profile, nil
	}
	what := "does not exist"
	if known {
		what = "is refused"
	}
	why := Reasons.With(BFDProfileMissing, name, what)
	former := b.Former.profiles[name]
	if former != nil {
		why = Reasons.With(BFDProfileGone, name, what)
	}
	return former, &why
}

// shareNode says whether a node has both sessions.
func (b *BGP) shareNode(p, q *lb.Peer) bool {
	if len(b.Nodes) == 0 {
		return len(p.NodeSelectors) == 0 || len(q.NodeSelectors) == 0 || slices.Equal(texts(p.NodeSelectors), texts(q.NodeSelectors))
	}
	return slices.ContainsFunc(b.Nodes, func(n labels.Set) bool { return p.On(n) && q.On(n) })
}

// peer reads a peer. unread is why the password in its Secret is not known.
func (b *BGP) peer(o *stored[metallb.BGPPeerSpec]) (out lb.Peer, unread string, wrong faults) {
	spec := &o.spec
	out = lb.Peer{
		Name: o.Name, Created: o.CreationTimestamp.Time,
		NodeSelectors: wrong.selectors("nodeSelectors", spec.NodeSelectors),
		Interface:     spec.Interface, Port: bgpPort, VRF: spec.VRFName,
		LocalAS: cmp.Or(spec.LocalASN, spec.MyASN), PeerAS: spec.PeerASN,
		Source:          wrong.addr("sourceAddress", spec.SourceAddress),
		RouterID:        wrong.addr("routerID", spec.RouterID),
		DualStack:       spec.DualStackAddressFamily || spec.Interface != "",
		GracefulRestart: spec.EnableGracefulRestart,
		Multihop:        spec.EBGPMultiHop,
	}
	out.Password, unread = wrong.password(spec, b)
	out.ASRule = wrong.asRule(spec)
	switch {
	case spec.PeerAddress == "" && spec.Interface == "":
		wrong.add("peer has no Address or Interface specified")
	case spec.PeerAddress != "" && spec.Interface != "":
		wrong.add("peer has both Address and Interface specified")
	default:
		out.Address = wrong.addr("peerAddress", spec.PeerAddress)
	}
	if out.Address.Is6() && out.Address.IsLinkLocalUnicast() && out.Address.Zone() == "" {
		wrong.add("peerAddress: link-local address %s has no zone; write it as %s%%eth0, or name the interface", out.Address, out.Address)
	}
	if out.Source.IsValid() && out.Address.IsValid() && lb.FamilyOf(out.Source) != lb.FamilyOf(out.Address) {
		wrong.add("sourceAddress: %s is not of the family of %s", out.Source, out.Address)
	}
	if out.RouterID.IsValid() && (!out.RouterID.Is4() || out.RouterID.IsUnspecified()) {
		wrong.add("routerID: invalid router ID %q: it must be an IPv4 address", spec.RouterID)
	}
	switch port := spec.PeerPort; {
	case port < 0 || port > 65535:
		wrong.add("peerPort: %d is not between 1 and 65535", port)
	case port > 0:
		out.Port = uint16(port)
	}
	out.Hold, out.Keepalive = wrong.timers(spec, strings.HasSuffix(o.version, "/v1beta1"))
	if spec.ConnectTime != nil {
		out.ConnectTime = spec.ConnectTime.Duration
		if d := out.ConnectTime; d < time.Second || d > 65535*time.Second || d%time.Second != 0 {
			wrong.add("connectTime: %s is not between 1s and 65535s in whole seconds", d)
		}
	}
	if text, set := o.Annotations[AnnotationMaxPrefixes]; set {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			wrong.add("annotation %s: %q is not a number of prefixes", AnnotationMaxPrefixes, text)
		}
		out.MaxPrefixes = int(n)
	}
	return out, unread, wrong
}

// asRule reads which AS the router must have.
func (w *faults) asRule(spec *metallb.BGPPeerSpec) lb.ASRule {
	if spec.MyASN == 0 {
		w.add("missing local ASN")
	}
	switch {
	case spec.PeerASN == 0 && spec.DynamicASN == "":
		w.add("missing peer ASN and dynamicASN")
	case spec.PeerASN != 0 && spec.DynamicASN != "":
		w.add("both peer ASN and dynamicASN specified")
	}
	if spec.EBGPMultiHop && (spec.PeerASN != 0 && spec.PeerASN == spec.MyASN || spec.DynamicASN == "internal") {
		w.add("ebgpMultiHop: the peer is in the same AS, so this is not eBGP")
	}
	switch spec.DynamicASN {
	case "":
	case "internal":
		return lb.InternalAS
	case "external":
		return lb.ExternalAS
	default:
		w.add("dynamicASN: %q is neither internal nor external", spec.DynamicASN)
	}
	return lb.ExactAS
}

// timers reads hold time and keepalive. Objects of v1beta1 have 0 where nothing was written.
func (w *faults) timers(spec *metallb.BGPPeerSpec, old bool) (hold, keepalive time.Duration) {
	given := func(d *metav1.Duration) bool { return d != nil && (!old || d.Duration != 0) }
	switch {
	case given(spec.HoldTime) && given(spec.KeepaliveTime):
		hold, keepalive = spec.HoldTime.Duration, spec.KeepaliveTime.Duration
	case given(spec.HoldTime):
		hold = spec.HoldTime.Duration
		keepalive = hold / 3
	case given(spec.KeepaliveTime):
		keepalive = spec.KeepaliveTime.Duration
		if keepalive > 0 && keepalive <= 65535*time.Second {
			hold = 3 * keepalive
		}
	default:
		return defaultHold, defaultKeepalive
	}
	switch {
	case hold < 0 || hold%time.Second != 0 || hold > 65535*time.Second || hold > 0 && hold < 3*time.Second:
		w.add("invalid hold time %q: it must be 0, or between 3s and 65535s in whole seconds", hold)
	case keepalive < 0 || keepalive > hold:
		w.add("invalid keepaliveTime %q: it must be between 0 and the hold time %q", keepalive, hold)
	}
	return hold, keepalive
}

// password reads the key of TCP-MD5, which never becomes part of a text. unread is why that in a
// Secret is not known.
func (w *faults) password(spec *metallb.BGPPeerSpec, b *BGP) (out, unread string) {
	out = spec.Password
	at := "password"
	if name := spec.PasswordSecret.Name; name != "" {
		if b.Secrets == nil && spec.Password == "" {
			return "", "" // it is not read here
		}
		at = fmt.Sprintf("passwordSecret: Secret %q", name)
		secret, exists := b.Secrets[name]
		value, has := secret.Data[SecretKey]
		switch {
		case spec.Password != "":
			w.add("can not have both password and secret ref")
		case b.SecretsUnread != "":
			return "", fmt.Sprintf("%s cannot be read: %s", at, b.SecretsUnread)
		case !exists:
			return "", fmt.Sprintf("%s does not exist", at)
		case secret.Type != SecretType:
			return "", fmt.Sprintf("%s is of type %q, not %s", at, secret.Type, SecretType)
		case !has || len(value) == 0:
			return "", fmt.Sprintf("%s has no key %q", at, SecretKey)
		}
		out = string(value)
	}
	if len(out) > maxPassword {
		w.add("%s: it has %d bytes; the kernel takes %d", at, len(out), maxPassword)
	}
	return out, ""
}

// addr reads an address, or none.
func (w *faults) addr(field, text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsMulticast() || field != "routerID" && a.IsUnspecified() {
		w.add("%s: %q is not the IP address of a host", field, text)
		return netip.Addr{}
	}
	return a.Unmap()
}
