package dhcp

import (
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
)

// phase of getting and holding a lease.
type phase uint8

const (
	discover phase = iota // who has an address for us?
	request               // that one, please
	renew                 // more time, from the server that gave it
	rebind                // more time, from any server
)

type kind uint8

const (
	offer kind = iota
	ack
	nak
)

// answer of a server.
type answer struct {
	kind         kind
	addr         netip.Addr
	life, t1, t2 time.Duration
	from         server
	name         string
}

// speaker makes and reads the messages of one family.
type speaker interface {
	// transactions is a mask of what can be a number of one.
	transactions() uint32
	compose(p phase, transaction uint32, l *Lease, elapsed time.Duration) ([]byte, *Unicast)
	// release returns nil if the lease cannot be given back.
	release(transaction uint32, l *Lease) ([]byte, *Unicast)
	// parse takes messages from strangers: what does not fit says nothing.
	parse(p phase, transaction uint32, h Heard) (answer, bool)
}

var speakers = [len(lb.Families)]func(Identity) speaker{
	lb.IPv4: func(id Identity) speaker { return v4{id} },
	lb.IPv6: func(id Identity) speaker { return v6{id} },
}
