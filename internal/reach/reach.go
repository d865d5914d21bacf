// Package reach warns of addresses that nodes at CloudSigma announce, and for which
// CloudSigma drops the packets.
//
// CloudSigma filters what a server receives and sends. An address passes on a public
// network card (NIC) that has it, and on one in mode manual if the account is subscribed
// to it. Class announce knows nothing of this: without a warning everything looks well,
// and nobody can connect. The package changes nothing in the cloud.
package reach

import (
	"net/netip"
	"slices"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/lb"
)

// account is what the cloud has.
type account struct {
	servers []cloudsigma.Server
	ips     []cloudsigma.IP
}

// finding is an address that is announced, and does not pass.
type finding struct {
	address  netip.Addr
	services []string // that have it, as namespace/name
	reason   lb.Reason
}

// find returns the announced addresses that do not pass, in the order of agents.
// providerIDs are those of the Nodes. Private addresses are those of networks (VLANs)
// that CloudSigma does not filter. A node that is no server of the account is another
// controller's problem.
func find(agents []v1alpha1.Agent, providerIDs map[string]string, a *account) (out []finding) {
	subscribed := map[netip.Addr]bool{}
	for i := range a.ips {
		if addr, ok := a.ips[i].Addr(); ok {
			subscribed[addr] = a.ips[i].Subscribed()
		}
	}
	for i := range agents {
		node := agents[i].Name
		server := serverOf(node, providerIDs[node], a.servers)
		if server == nil {
			continue
		}
		for _, announced := range agents[i].Status.Addresses {
			addr, err := netip.ParseAddr(announced.Address)
			if err != nil || addr.IsPrivate() || server.has(addr) {
				continue
			}
			f := finding{address: addr, services: announced.Services}
			switch mode, manual := server.mode(addr); {
			case !subscribed[addr]:
				f.reason = Reasons.With(AddressNotSubscribed, node, addr)
			case !manual:
				f.reason = Reasons.With(CardNotManual, node, addr, server.Name, mode)
			default:
				continue
			}
			out = append(out, f)
		}
	}
	return out
}

type server struct{ *cloudsigma.Server }

// serverOf finds the server of a node by its providerID or, if it has none, by its name.
func serverOf(node, providerID string, all []cloudsigma.Server) *server {
	var found *server
	id, err := cloudsigma.ServerID(providerID)
	for i := range all {
		switch {
		case providerID != "" && (err != nil || all[i].UUID != id), providerID == "" && all[i].Name != node:
		case found != nil:
			return nil // several have the name
		default:
			found = &server{&all[i]}
		}
	}
	return found
}

// has says whether a card of the server has an address by itself.
func (s *server) has(addr netip.Addr) bool {
	return s.Attached(addr) || slices.ContainsFunc(s.NICs, func(n cloudsigma.NIC) bool { return slices.Contains(n.Runtime, addr) })
}

// mode of the server's public card for the family of an address.
func (s *server) mode(addr netip.Addr) (mode string, manual bool) {
	card := s.PublicNIC()
	if card == nil {
		return "none: it has no public NIC", false
	}
	conf := card.V4
	if addr.Is6() {
		conf = card.V6
	}
	if conf == nil {
		return "none: it has no " + lb.FamilyOf(addr).String(), false
	}
	return conf.Conf, card.Manual(addr)
}
