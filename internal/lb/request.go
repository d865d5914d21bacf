package lb

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Evidence ranks how far one can believe that a Service has the addresses it
// publishes. A lower rank always wins against a higher one.
type Evidence uint8

const (
	// Proven: only a Fairlead controller could have written it.
	Proven Evidence = iota
	// Reported: another controller wrote it into the status, which tenants cannot
	// write.
	Reported
	// Asserted: anybody with edit rights on the Service could have written it. It
	// can hold a free address that the Service would get by asking for it, and never
	// takes one from another Service.
	Asserted
)

// Request is what one Service asks for.
type Request struct {
	Service types.NamespacedName
	UID     types.UID
	Created time.Time // of two Services that claim one address, the older keeps it

	Labels          labels.Set
	NamespaceLabels labels.Set

	// Dialects whose pools the Service's class may use, the one first whose pool it
	// means if two have one of that name.
	Dialects []Dialect

	// Families the Service has, the primary one first; never empty.
	Families []Family
	Policy   FamilyPolicy

	// Addresses asked for, at most one per family unless Several; empty means any. Of
	// several of one family, the Service has those that it can have.
	Addresses []netip.Addr
	Several   bool
	// Anywhere gives the addresses asked for also if they are in no pool, with a
	// warning.
	Anywhere bool
	// DHCP has the families of which the Service requests an address by DHCP, whatever
	// its pool; Leased are the addresses that it was assigned.
	DHCP   [len(Families)]bool
	Leased []netip.Addr
	// Pool asked for by name; empty means any that admits the Service.
	Pool string
	// From names the pools of the addresses that the Service publishes, as it was
	// written down with them. At first sight it tells a Service that has come to
	// ask for another pool from one whose pool has changed.
	From []string

	// ShareKey, if not empty, lets Services with the same key and the same
	// Backends live on one address as long as no (protocol, port) is theirs both.
	ShareKey string
	// ShareOnly, if set, limits sharing to addresses of that family.
	ShareOnly *Family
	// ShareAmong, if set, limits new sharing to Services with the same value.
	// Services that already share an address, by ShareKey, keep sharing it.
	ShareAmong string
	// Alone: the Service starts no new sharing, and no other Service joins its
	// addresses. Services that already share an address, by ShareKey, keep sharing it.
	Alone bool
	// Backends is empty where any node may receive the traffic; with
	// externalTrafficPolicy Local it is the Service's selector, because the node
	// that has the address must have the pods of all Services on it.
	Backends string
	Ports    []Port

	// Voice is the dialect whose wording explains why the Service has no address.
	// With an address, the dialect of its pool is used.
	Voice Dialect

	// DryRun: report what a plan would change, and do nothing.
	DryRun bool

	// Route is what the Service asks for about its routes.
	Route RouteRequest

	// Interface on which the Service is to be announced, where its namespace has one.
	Interface string

	// Inherits: the Service requests an address that it got from a system that no
	// longer announces it. It takes precedence over plain requests of other Services.
	Inherits bool
	// AsIs: the Service cannot be judged at present. It stays as it is.
	AsIs bool
	// Unread, if set, names pools that cannot be read. It is added to the reason if
	// the Service has no pool.
	Unread *Reason
	// Ignored, if set, says which of the Service's requests have no effect until an
	// administrator permits them. It is added to the reason.
	Ignored *Reason

	// Evidence for the addresses that the Service publishes. Noted is when it was
	// written, where a tenant could have kept it and put it back later; else zero.
	Evidence Evidence
	Noted    time.Time

	// Lingers: the Service may be reached at an address that it has lost until its status does
	// not have it any more. Nobody else gets the address before that.
	Lingers bool

	// Reallocate asks to give up an address that is out of pool.
	Reallocate bool

	// Invalid, if set, says what in the Service cannot be understood. What it
	// holds it keeps; it gets nothing new.
	Invalid *Reason
}

// Port is one port of a Service.
type Port struct {
	Protocol string // TCP, UDP or SCTP
	Number   uint16
}

// Older says whether the Service of r is older than that of o: by creation
// time, then by UID, so that every caller gets the same answer.
func (r *Request) Older(o *Request) bool {
	if !r.Created.Equal(o.Created) {
		return r.Created.Before(o.Created)
	}
	return r.UID < o.UID
}

// Verdict answers a Request: the addresses the Service has, in the order in
// which they are published, where they are from, and the reason.
//
// A verdict may have addresses and a reason that is not Ready: the Service asks
// for something it cannot have, and keeps what it has until then.
type Verdict struct {
	Addresses []netip.Addr
	// DHCP has the families whose address is assigned by DHCP. What was assigned is in
	// Addresses.
	DHCP [len(Families)]bool
	// Pools from which Addresses are, without repetition; empty if out of pool.
	Pools  []PoolKey
	Reason Reason
}
