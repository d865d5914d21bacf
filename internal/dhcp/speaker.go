package dhcp

import (
	"fmt"
	"net/netip"
	"time"

	"go4.org/netipx"

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
	useless // meant for us, but nothing can be done with it
)

// answer of a server.
type answer struct {
	kind         kind
	addr         netip.Addr
	life, t1, t2 time.Duration
	from         server
	name         string
	why          string // it is useless; "" if there is no address
}

// judged returns a as it is, or as useless if no Service can have its address, or
// not for long enough.
func judged(a answer) answer {
	switch kind := lb.Unusable(netipx.IPRangeFrom(a.addr, a.addr)); {
	case kind != "":
		a.kind, a.why = useless, fmt.Sprintf("%s is a %s address", a.addr, kind)
	case a.life < shortest:
		a.kind, a.why = useless, fmt.Sprintf("%s is given for %s only", a.addr, a.life)
	}
	return a
}

// speaker makes and reads the messages of one family.
type speaker interface {
	// transactions is a mask of what can be a number of one.
	transactions() uint32
	// goesOn says whether a request goes on with the transaction of the offer that it
	// answers, or begins one.
	goesOn() bool
	compose(p phase, transaction uint32, l *Lease, elapsed time.Duration) ([]byte, *Unicast)
	// release returns nil if the lease cannot be given back.
	release(transaction uint32, l *Lease) ([]byte, *Unicast)
	// decline says that somebody else uses the address; nil as in release.
	decline(transaction uint32, l *Lease) []byte
	// parse takes messages from strangers: what does not fit says nothing.
	parse(p phase, transaction uint32, h Heard) (answer, bool)
}

var speakers = [len(lb.Families)]func(Identity) speaker{
	lb.IPv4: func(id Identity) speaker { return v4{id} },
	lb.IPv6: func(id Identity) speaker { return v6{id} },
}
