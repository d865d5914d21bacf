package dhcp

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"time"
)

// Identity is the client that leases an address, whichever node runs it.
type Identity struct {
	// ID is sent to the server as the client identifier.
	ID [16]byte
	// MAC is shown as the client's hardware address in IPv4. It is on no frame.
	MAC net.HardwareAddr
	// Hostname is sent to the server if it is not empty.
	Hostname string
	// Requested is the address that is asked for first, if valid.
	Requested netip.Addr
}

// IdentityOf returns the identity of what has that name, always the same.
func IdentityOf(name string) Identity {
	sum := sha256.Sum256([]byte("fairlead.io/dhcp " + name))
	id := Identity{ID: [16]byte(sum[:16]), MAC: append(net.HardwareAddr(nil), sum[16:22]...)}
	id.ID[6] = id.ID[6]&0x0f | 0x80 // a UUID made by an application's own rule
	id.ID[8] = id.ID[8]&0x3f | 0x80
	id.MAC[0] = id.MAC[0]&^1 | 2 // of one host, and assigned locally
	return id
}

// Lease is an address for some time.
type Lease struct {
	Addr netip.Addr
	// Until is when it ends; zero is never.
	Until time.Time
	// Server that gave it, as it calls itself; empty if that is not known.
	Server string

	renew, rebind time.Time // T1 and T2; zero is never
	from          server
	given         string // by the server of that name, to another client
}

// Ended says whether the lease has run out.
func (l *Lease) Ended(now time.Time) bool { return !l.Until.IsZero() && !now.Before(l.Until) }

// server is where to renew.
type server struct {
	id   []byte           // its identifier
	addr netip.Addr       // IPv4: where it is asked
	mac  net.HardwareAddr // the last hop to it
}

// shortest is the least time for which an address is of use: it has to be
// published, and other nodes have to be able to take it over.
const shortest = 10 * time.Second

// forever is how servers write that a lease does not end.
const forever = 0xffffffff * time.Second

// leaseFrom makes a lease from what a server said at that time. Times that it
// does not say, or that make no sense, are those of RFC 2131 §4.4.5.
func leaseFrom(a answer, now time.Time) *Lease {
	l := &Lease{Addr: a.addr, Server: a.name, from: a.from}
	if a.life >= forever {
		return l
	}
	t1, t2 := a.t1, a.t2
	if t2 <= 0 || t2 > a.life {
		t2 = a.life * 7 / 8
	}
	if t1 <= 0 || t1 > t2 {
		t1 = min(a.life/2, t2)
	}
	t1, t2 = max(t1, firstWait), max(t2, firstWait)
	l.Until, l.renew, l.rebind = now.Add(a.life), now.Add(t1), now.Add(t2)
	return l
}

// remembered returns a lease of which only the address and its end are known,
// because another node had it: it is renewed with whatever server answers.
func remembered(addr netip.Addr, until time.Time, server string, now time.Time) *Lease {
	return &Lease{Addr: addr, Until: until, renew: now, rebind: now, given: server}
}
