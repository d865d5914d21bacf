package agent

import (
	"time"

	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/lb"
)

// leasePort returns the port for DHCP on an interface, which all leases there
// have together.
//
// It is nil if it could not be opened, which is tried again after a while.
func (a *agent) leasePort(place string, index int, now time.Time) *dhcp.Port {
	have, ok := a.leasePorts[place]
	switch {
	case ok && have.index == index && (have.port != nil || now.Before(have.retry)):
		return have.port
	case have.port != nil:
		_ = have.port.Close()
	}
	port, err := dhcp.Open(place)
	if err != nil {
		a.log.Error("no lease can be asked for", "interface", place, "error", err)
	}
	a.leasePorts[place] = leasePort{port, index, now.Add(leasePortRetry)}
	return port
}

const leasePortRetry = 10 * time.Second

type leasePort struct {
	port  *dhcp.Port
	index int
	retry time.Time // if it could not be opened
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
