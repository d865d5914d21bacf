package agent

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
)

// inward are interfaces that lead to pods or nowhere, by the names that network
// plugins and container engines give them. A pool that names one uses it all the
// same. Options.Excluded replaces it.
var inward = regexp.MustCompile(`^(docker|cbr|dummy|virbr|lxcbr|veth|cali|tunl|flannel|kube-ipvs|cni|nodelocaldns|lxc|cilium|kube-bridge|vxlan)`)

// usable says whether an address of family f can be on l: the link is up, leads
// outside, the kernel answers there, and for IPv6 it has a global address of its own.
// (Without one, an address of ours would be taken for the node's own.)
func usable(l *link.Link, f lb.Family) bool {
	return l.Up && !l.Loopback && !l.Slave && l.Silent[f] == "" && (f == lb.IPv4 || l.Global[lb.IPv6])
}

// scope says which interfaces are used at all.
type scope struct {
	excluded *regexp.Regexp
	named    map[string]bool // some pool names it, so that it is used all the same
}

func (s *scope) has(name string) bool { return s.named[name] || !s.excluded.MatchString(name) }

// name notes interfaces that a pool names.
func (s *scope) name(interfaces []string) {
	for _, i := range interfaces {
		s.named[i] = true
	}
}

// any says whether l carries an address of family f whether it is named or not. One that
// is excluded and yet named is as if it had no address of its own: it carries one only
// where it is named.
func (s *scope) any(l *link.Link, f lb.Family) bool {
	return usable(l, f) && l.Global[f] && !s.excluded.MatchString(l.Name)
}

// metaOf tells the other agents what they must know of this node.
func metaOf(links []link.Link, s *scope, proxy proxyState, leaving bool) member.Meta {
	m := member.Meta{Eligible: proxy.eligible(), LastResort: proxy == proxyUnhealthy, Leaving: leaving}
	for i := range links {
		l := &links[i]
		if !s.has(l.Name) {
			continue
		}
		if len(l.MAC) > 0 && !l.Loopback && !slices.ContainsFunc(m.MACs, func(x net.HardwareAddr) bool { return slices.Equal(x, l.MAC) }) {
			m.MACs = append(m.MACs, l.MAC)
		}
		every := func(f lb.Family) bool { return s.any(l, f) }
		if usable(l, lb.IPv4) || usable(l, lb.IPv6) {
			m.Links = append(m.Links, member.Link{Name: l.Name, V4: every(lb.IPv4), V6: every(lb.IPv6),
				NoV4: !usable(l, lb.IPv4), NamedV6: usable(l, lb.IPv6)})
		}
		for _, f := range lb.Families {
			if l.Silent[f] != "" && l.Up && !l.Slave && !l.Loopback {
				m.Silences = append(m.Silences, member.Silence{Link: l.Name, V6: f == lb.IPv6, Why: l.Silent[f]})
			}
		}
	}
	return m
}

// risen returns the interfaces that are up now and were not before.
func risen(before, now []link.Link) (out []string) {
	for i := range now {
		was := slices.ContainsFunc(before, func(l link.Link) bool { return l.Name == now[i].Name && l.Index == now[i].Index && l.Up })
		if now[i].Up && !was {
			out = append(out, now[i].Name)
		}
	}
	return out
}

// carriers returns the interfaces of this node on which a is to be: those that
// advertisements name; without any, those whose own network has a; and if there
// is none, all that lead outside.
func carriers(a netip.Addr, named []string, links []link.Link, excluded *regexp.Regexp) []string {
	var near, far []string
	f := lb.FamilyOf(a)
	for i := range links {
		l := &links[i]
		if !usable(l, f) {
			continue
		}
		if len(named) > 0 {
			if slices.Contains(named, l.Name) {
				near = append(near, l.Name)
			}
			continue
		}
		if excluded.MatchString(l.Name) || !l.Global[f] {
			continue
		}
		far = append(far, l.Name)
		if has(l, a) {
			near = append(near, l.Name)
		}
	}
	if len(near) == 0 && len(named) == 0 {
		near = far
	}
	slices.Sort(near)
	return near
}

// has says whether l has an address of its own in a network with a.
func has(l *link.Link, a netip.Addr) bool {
	return slices.ContainsFunc(l.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// leaseInterface returns the interface of this node on which an address of family f
// would be leased: that which is named; of several the one whose network has last,
// then the first.
func leaseInterface(f lb.Family, last netip.Addr, named []string, links []link.Link, excluded *regexp.Regexp) (iface string, index int) {
	near := false
	for i := range links {
		l := &links[i]
		switch {
		case !usable(l, f), len(l.MAC) != 6:
			continue
		case len(named) > 0 && !slices.Contains(named, l.Name):
			continue
		case len(named) == 0 && (excluded.MatchString(l.Name) || !l.Global[f]):
			continue
		}
		here := last.IsValid() && has(l, last)
		if iface == "" || here && !near || here == near && l.Name < iface {
			iface, index, near = l.Name, l.Index, here
		}
	}
	return iface, index
}

// offSubnet says whether the node has no address of its own in a network with a.
func offSubnet(a netip.Addr, links []link.Link) bool {
	return !slices.ContainsFunc(links, func(l link.Link) bool { return l.Up && has(&l, a) })
}

// fill adds to n what its agent says.
func fill(n *elect.Node, m member.Meta) {
	n.Alive, n.ProxyHealthy, n.ProxyWasHealthy, n.Leaving = true, m.Eligible, m.LastResort, m.Leaving
	n.Interfaces, n.Bare = map[lb.Family]sets.Set[string]{}, map[lb.Family]sets.Set[string]{}
	for _, f := range lb.Families {
		n.Interfaces[f], n.Bare[f] = sets.New[string](), sets.New[string]()
		for _, l := range m.Links {
			every, named := l.V4, !l.NoV4
			if f == lb.IPv6 {
				every, named = l.V6, l.V6 || l.NamedV6
			}
			if named {
				n.Interfaces[f].Insert(l.Name)
			}
			if named && !every {
				n.Bare[f].Insert(l.Name)
			}
		}
	}
	n.Silence = map[lb.Family]string{}
	for _, s := range m.Silences {
		f := lb.IPv4
		if s.V6 {
			f = lb.IPv6
		}
		n.Silence[f] = strings.TrimPrefix(n.Silence[f]+", "+s.Link+": "+s.Why, ", ")
	}
}

// nodeAddresses returns all addresses in the Node's status.
func nodeAddresses(n *corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if addr, err := lb.ParseAddr(a.Address); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// nodeAddress returns the node's own address, at which its agent is found.
func nodeAddress(n *corev1.Node) (netip.Addr, bool) {
	for _, want := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if addr, err := lb.ParseAddr(a.Address); err == nil && a.Type == want {
				return addr, true
			}
		}
	}
	return netip.Addr{}, false
}
