package agent

import (
	"time"

	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/lb"
)

// leasePort returns the port for DHCP on an interface, which all leases there
// have together.
func (a *agent) leasePort(place string, index int) (*dhcp.Port, error) {
	if have, ok := a.leasePorts[place]; ok {
		if have.index == index {
			return have.port, nil
		}
		_ = have.port.Close()
		delete(a.leasePorts, place)
	}
	port, err := dhcp.Open(place)
	if err != nil {
		return nil, err
	}
	a.leasePorts[place] = leasePort{port, index}
	return port, nil
}

type leasePort struct {
	port  *dhcp.Port
	index int
}

// inheritLeases takes over the leases of addresses that an earlier agent has left
// in the kernel.
func (a *agent) inheritLeases(now time.Time) {
	for token := range a.directory.members {
		last, err := lb.ParseAddr(a.directory.lastLease(token).Address)
		held := a.held[last]
		if err != nil || held == nil || len(held.places) == 0 {
			continue
		}
		candidate := a.directory.leaseCandidate(token)
		if place, index := a.leasePlace(token, &candidate); place == held.places[0] {
			a.beginLease(token, place, index, held.epoch, now)
		}
	}
}
