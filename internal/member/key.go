package member

import "net/netip"

// maxLease is the longest name of a lease that may be claimed.
const maxLease = 64

// Key is what a claim is for: an address, or a lease whose address nobody knows
// until a node has it. Exactly one of the two is set.
type Key struct {
	Addr  netip.Addr
	Lease string // at most 64 bytes; every node makes the same name for the same lease
}

// Addr is the key of an address.
func Addr(a netip.Addr) Key { return Key{Addr: a} }

// Lease is the key of a lease.
func Lease(name string) Key { return Key{Lease: name} }

// valid says whether k can be sent.
func (k Key) valid() bool {
	if k.Lease != "" {
		return !k.Addr.IsValid() && len(k.Lease) <= maxLease
	}
	return k.Addr.IsValid() && !k.Addr.Is4In6() && k.Addr.Zone() == ""
}

// normal returns k as it is sent: one address has one form.
func (k Key) normal() Key {
	k.Addr = k.Addr.Unmap().WithZone("")
	return k
}

func (k Key) String() string {
	if k.Lease != "" {
		return "lease " + k.Lease
	}
	return k.Addr.String()
}
