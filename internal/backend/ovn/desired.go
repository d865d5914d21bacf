package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
)

// desired is what a Service is to have in the database.
func desired(w *lb.Want, p *Place, addresses []netip.Addr) *ovn.Service {
	s := &w.Service
	out := &ovn.Service{Namespace: s.Key.Namespace, Name: s.Key.Name, UID: string(s.UID),
		Router: p.Router, Switches: p.Switches, Gateway: p.Gateway, Affinity: s.Affinity}
	// What is from pools may have been another Service's a moment ago, whose rows still
	// stand. An EIp's address is free only when its rows are gone.
	out.Sole = len(p.Addresses) == 0
	if p.TakeOver {
		out.TakeOver = addresses
	}
	if out.Sources, out.Restricted = sources(s.SourceRanges); out.Restricted {
		// What is served already goes on, with a warning.
		out.Strict = len(s.Ingress) == 0
	} else {
		out.Sources = nil
	}
	for _, port := range s.Ports {
		protocol := strings.ToLower(port.Protocol)
		if !slices.Contains(ovn.Protocols, protocol) {
			continue
		}
		for _, a := range slices.Concat(addresses, p.Former) {
			out.Listeners = append(out.Listeners, ovn.Listener{
				Protocol: protocol, VIP: netip.AddrPortFrom(a, port.Number), Backends: backends(w.Endpoints, lb.EndpointPort{Name: port.Name, Protocol: port.Protocol}, lb.FamilyOf(a)),
			})
		}
	}
	return out
}

// Listeners are what a Service that has these addresses is to have in the database.
func Listeners(w *lb.Want, addresses ...netip.Addr) []ovn.Listener {
	return desired(w, &Place{}, addresses).Listeners
}

// backends serve a port, by its name and protocol. Those that are terminating serve while there are no
// others.
func backends(endpoints []lb.Endpoint, port lb.EndpointPort, family lb.Family) (out []netip.AddrPort) {
	var last []netip.AddrPort
	for _, e := range endpoints {
		number, has := e.Ports[port]
		if !has || number == 0 || lb.FamilyOf(e.Address) != family {
			continue
		}
		switch at := netip.AddrPortFrom(e.Address, number); {
		case e.Ready:
			out = append(out, at)
		case e.Serving:
			last = append(last, at)
		}
	}
	if len(out) == 0 {
		out = last
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// sources are the networks that may connect; restricted is false if everybody may. What is
// not a network lets nobody in. Everybody of one family alone is everybody.
func sources(ranges []string) (out []netip.Prefix, restricted bool) {
	for _, text := range ranges {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			restricted = true
			continue
		}
		restricted = restricted || p.Bits() > 0
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out), restricted
}
