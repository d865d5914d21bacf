package lb

import (
	"net"
	"net/netip"
)

// LeaseRequest is what one Service wants from DHCP servers.
type LeaseRequest struct {
	Request  *Request
	Families [len(Families)]bool
	// Published has, by family, the address that the Service publishes, if it may
	// have been leased: by us, or by another program before.
	Published [len(Families)]netip.Addr
	Interface string // on which to lease; "" is any
	// NamedBy is that with which a Service names the interface: "annotation x".
	NamedBy string
	Pool    PoolKey
	// What the Service asks to be known by, and the address it asks for.
	Hostname  string
	MAC       net.HardwareAddr
	Requested netip.Addr
}

// AdvertisedOn is how addresses are announced that are for one interface, or for any if
// it is "".
func AdvertisedOn(iface string) []Advertisement {
	if iface == "" {
		return []Advertisement{{}}
	}
	return []Advertisement{{Layer2: Layer2{Interfaces: []string{iface}}}}
}

// Shares says whether the Service may share addresses of that family with others.
func (r *Request) Shares(f Family) bool {
	return r.ShareKey != "" && !r.Alone && (r.ShareOnly == nil || *r.ShareOnly == f)
}
