package bfd

import (
	"cmp"
	"net/netip"
	"time"
)

// Peer names a session: there is one between two addresses.
type Peer struct {
	Local, Remote netip.Addr // link-local addresses with their zone
	Multihop      bool
	Device        string // a VRF, or empty
}

// Profile is how a session works. Zero values stand for the defaults.
type Profile struct {
	Transmit, Receive time.Duration // intervals; 300 ms if 0
	Multiplier        uint8         // of lost packets; 3 if 0
	// Passive sessions are silent until the peer has spoken.
	Passive bool
	// MinTTL is the lowest TTL or hop limit of packets that count in a multihop session; 1
	// if 0. In a session of one hop it is always 255.
	MinTTL uint8
}

// Limits of intervals: below, a process cannot keep up; above, nothing is detected.
const (
	MinInterval     = 10 * time.Millisecond
	MaxInterval     = time.Minute
	DefaultInterval = 300 * time.Millisecond
)

// slow is how often sessions send at most that are not Up (RFC 5880 §6.8.3).
const slow = time.Second

func (p Profile) withDefaults() Profile {
	for _, d := range []*time.Duration{&p.Transmit, &p.Receive} {
		*d = min(max(cmp.Or(*d, DefaultInterval), MinInterval), MaxInterval).Truncate(time.Microsecond)
	}
	p.Multiplier = cmp.Or(p.Multiplier, 3)
	p.MinTTL = cmp.Or(p.MinTTL, 1)
	return p
}

// minTTL of packets that count.
func (p *Profile) minTTL(multihop bool) uint8 {
	if multihop {
		return p.MinTTL
	}
	return 255
}
