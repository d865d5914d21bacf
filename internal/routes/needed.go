package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

const (
	// priority of kube-dc's policy routes for load balancers. Those of FIps, which take
	// all that a pod sends, come after it.
	priority = 30010
	reroute  = "reroute"
	// maxRoutes is how many a Service may have. All of a Vpc are listed in one annotation,
	// and pods of one Service must not use it up.
	maxRoutes = 500
)

// Served is an address of a Service, with the backends that serve it.
type Served struct {
	VIP      netip.Addr
	Protocol string // tcp, udp or sctp
	Backends []netip.AddrPort
}

// Needed are the routes for backends that serve addresses of other external subnets than
// the default one, sorted. Without a default one there are none: nobody knows where
// replies leave. There are at most maxRoutes, those for what is served first; more is how many
// there would be besides.
func Needed(served []Served, subnets []*kubeovn.Subnet, standard string) (needed []kubeovn.PolicyRoute, more int) {
	if standard == "" {
		return nil, 0
	}
	seen := map[kubeovn.PolicyRoute]struct{}{}
	for _, s := range served {
		via, ok := gateway(s.VIP, subnets, standard)
		if !ok {
			continue
		}
		for _, b := range s.Backends {
			if lb.FamilyOf(b.Addr()) != lb.FamilyOf(s.VIP) {
				continue
			}
			r := route(s.Protocol, b, via)
			if _, known := seen[r]; known {
				continue
			}
			if seen[r] = struct{}{}; len(needed) < maxRoutes {
				needed = append(needed, r)
			}
		}
	}
	slices.SortFunc(needed, compare)
	return needed, len(seen) - len(needed)
}

// route is the one for the replies of a backend. It leaves all else that the same pod
// sends as it is.
func route(protocol string, backend netip.AddrPort, via netip.Addr) kubeovn.PolicyRoute {
	family := "ip4"
	if backend.Addr().Is6() {
		family = "ip6"
	}
	return kubeovn.PolicyRoute{Priority: priority, Action: reroute, NextHopIP: via.String(),
		Match: fmt.Sprintf("%s.src == %s && %s.src == %d", family, backend.Addr(), protocol, backend.Port())}
}

func compare(a, b kubeovn.PolicyRoute) int {
	return cmp.Or(cmp.Compare(a.Match, b.Match), cmp.Compare(a.NextHopIP, b.NextHopIP))
}

// gateway is that of the external subnet of an address; ok is false if it is the default
// one, or none.
func gateway(a netip.Addr, subnets []*kubeovn.Subnet, standard string) (via netip.Addr, ok bool) {
	var found *kubeovn.Subnet
	for _, s := range subnets {
		if s.Name != standard && s.Labels[kubedc.LabelNetworkType] == "" || !contains(s, a) {
			continue
		}
		if s.Name == standard {
			return netip.Addr{}, false
		}
		if found == nil || s.Name < found.Name {
			found = s
		}
	}
	if found == nil {
		return netip.Addr{}, false
	}
	for field := range strings.SplitSeq(found.Spec.Gateway, ",") {
		if g, err := netip.ParseAddr(strings.TrimSpace(field)); err == nil && lb.FamilyOf(g) == lb.FamilyOf(a) {
			return g, true
		}
	}
	return netip.Addr{}, false
}

func contains(s *kubeovn.Subnet, a netip.Addr) bool {
	for field := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(field)); err == nil && p.Masked().Contains(a) {
			return true
		}
	}
	return false
}
