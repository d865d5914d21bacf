package cloudscale

import "net/http"

// wantedInterface is a network card that somebody asks for.
type wantedInterface struct {
	network string // empty: public
	all     bool   // one address of each subnet
	wanted  []Address
}

// wantedInterfaces reads the cards of a server. One without a network is in
// that of its first address; one with an empty list of addresses has none.
func (s *Simulator) wantedInterfaces(f *fields, zone string) []wantedInterface {
	list, _ := f.objects("interfaces")
	var nics []wantedInterface
	for _, inner := range list {
		nic := wantedInterface{all: !inner.has("addresses")}
		addresses, _ := inner.objects("addresses")
		for _, a := range addresses {
			a.require("subnet")
			id, address := a.reference("subnet"), a.address("address")
			subnet := s.subnets.Get(id)
			switch {
			case len(a.wrong) > 0:
			case subnet == nil:
				a.missing("subnet", "Subnet", id)
			case address.IsValid() && !usable(subnet, address):
				a.fail("address", address.String()+" is not a valid IP for the specified subnet.")
			default:
				nic.network = subnet.Network
				nic.wanted = append(nic.wanted, Address{address, id})
			}
			inner.take("addresses", a)
		}
		switch network := inner.text("network", ""); {
		case network == "public":
			nic.network = ""
		case network != "":
			nic.network = network
		case nic.network == "":
			inner.fail("network", "This field is required.")
		}
		if n := s.networks.Get(nic.network); nic.network != "" && n == nil {
			inner.missing("network", "Network", nic.network)
		} else if n != nil && n.Zone != zone {
			inner.fail("network", "The network is not in the zone \""+zone+"\".")
		}
		f.take("interfaces", inner)
		nics = append(nics, nic)
	}
	return nics
}

// fill gives cards their addresses. A card in a network that the server was in
// before keeps those it had, unless it asks for others.
func (s *Simulator) fill(zone string, nics []wantedInterface, before []Interface) ([]Interface, error) {
	var filled []Interface
	for _, nic := range nics {
		wanted := nic.wanted
		if nic.all {
			wanted = addressesIn(before, nic.network)
		}
		if nic.all && wanted == nil {
			for _, subnet := range s.subnetsFor(nic.network, zone) {
				wanted = append(wanted, Address{Subnet: subnet.UUID})
			}
		}
		card := Interface{Network: nic.network}
		for _, a := range wanted {
			if !a.Address.IsValid() {
				taken, ok := s.take(s.subnet(a.Subnet))
				if !ok {
					return nil, detail(http.StatusBadRequest, "There are no free addresses in %s.", s.subnet(a.Subnet).CIDR)
				}
				a.Address = taken
			}
			card.Addresses = append(card.Addresses, a)
		}
		filled = append(filled, card)
	}
	return filled, nil
}

// inSubnets finds the subnets of addresses that do not name theirs.
func (s *Simulator) inSubnets(nic Interface, zone string) []Address {
	var all []Address
	for _, a := range nic.Addresses {
		for _, subnet := range s.subnetsFor(nic.Network, zone) {
			if a.Subnet == "" && subnet.CIDR.Contains(a.Address) {
				a.Subnet = subnet.UUID
			}
		}
		all = append(all, a)
	}
	return all
}

func addressesIn(nics []Interface, network string) []Address {
	for _, nic := range nics {
		if nic.Network == network {
			return nic.Addresses
		}
	}
	return nil
}

// subnetsFor are those of a network, or the public ones of a zone.
func (s *Simulator) subnetsFor(network, zone string) []*Subnet {
	if network != "" {
		return s.subnetsOf(network)
	}
	return s.publicSubs.Where(func(n *Subnet) bool { return n.Network == s.publicNets[zone].UUID })
}
