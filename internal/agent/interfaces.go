package agent

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

const (
	// proxyInterface is where kube-proxy puts the addresses of all Services in its mode
	// ipvs.
	proxyInterface = "kube-ipvs0"

	maxInterfaces         = 256
	maxInterfaceAddresses = 256
)

// interfacesOf returns the interfaces of a node for its Agent object. Operators see
// there why nothing is announced on one; the controller gives none of their addresses
// to a Service. So all addresses of the node are in it, such as a keepalived VIP or
// that of a second network card, but not ours, kube-proxy's and those that a Service
// publishes, which another load balancer put there.
func interfacesOf(links []link.Link, s *scope, published func(netip.Addr) bool) (out []v1alpha1.Interface) {
	for i := range links {
		l := &links[i]
		own := ownAddresses(l)
		if hidden(l, s, len(own) > 0) || len(out) == maxInterfaces {
			continue
		}
		n := v1alpha1.Interface{Name: l.Name, Up: l.Up, Obstacle: s.obstacle(l)}
		for _, f := range lb.Families {
			if s.has(l.Name) && usable(l, f) {
				n.Families = append(n.Families, f.String())
				if !s.any(l, f) {
					n.NamedOnly = append(n.NamedOnly, f.String())
				}
			}
		}
		for _, p := range own[:min(len(own), maxInterfaceAddresses)] {
			if !published(p.Addr()) {
				n.Addresses = append(n.Addresses, p.String())
			}
		}
		out = append(out, n)
	}
	return out
}

// hidden says whether an interface is nobody's concern: it is kube-proxy's, or it has
// no address and leads to a pod or nowhere. Pods come and go all the time.
func hidden(l *link.Link, s *scope, addresses bool) bool {
	switch {
	case l.Name == proxyInterface:
		return true
	case addresses || s.named[l.Name]:
		return false
	}
	return l.Loopback || l.Crossing || s.excluded.MatchString(l.Name)
}

// ownAddresses returns the addresses of an interface without those that every node has.
func ownAddresses(l *link.Link) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(l.Prefixes), func(p netip.Prefix) bool {
		return p.Addr().IsLoopback() || p.Addr().Is6() && p.Addr().IsLinkLocalUnicast()
	})
}

// obstacle says in few words why nothing is announced on l, whatever the address; ""
// if something can be.
func (s *scope) obstacle(l *link.Link) string {
	switch {
	case l.Loopback:
		return "loopback"
	case !s.has(l.Name):
		return "excluded by its name; a pool can name it"
	case l.Slave:
		return "port of a bridge, bond or team"
	case !l.Up:
		return "down"
	}
	return cmp.Or(l.Silent[0], l.Silent[1])
}

// readInterfaces takes over the interfaces for the report.
func (a *agent) readInterfaces() {
	own := sets.New[netip.Addr]()
	for i := range a.links {
		if a.links[i].Name == proxyInterface {
			continue
		}
		for _, p := range ownAddresses(&a.links[i]) {
			own.Insert(p.Addr())
		}
	}
	if a.publishedDirty || !own.Equal(a.own) {
		a.own, a.publishedDirty, a.ofServices = own, false, sets.New[netip.Addr]()
		var services corev1.ServiceList
		if err := a.cluster.List(a.background, &services); err == nil {
			for i := range services.Items {
				a.ofServices.Insert(a.publishedHere(&services.Items[i])...)
			}
		}
	}
	a.interfaces = interfacesOf(a.links, &a.scope, a.ofServices.Has)
}

// publishedHere returns the addresses of the node that a Service publishes.
func (a *agent) publishedHere(s *corev1.Service) (out []netip.Addr) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if addr, err := lb.ParseAddr(in.IP); err == nil && a.own.Has(addr) {
			out = append(out, addr)
		}
	}
	return out
}

// noticeService has interfaces read again if a Service may have come to publish an
// address of the node, or does not publish it any more; nil is one that is gone.
func (a *agent) noticeService(s *corev1.Service) {
	if a.ofServices.Len() > 0 || s != nil && len(a.publishedHere(s)) > 0 {
		a.publishedDirty, a.interfacesDirty = true, true
	}
}
