package member

import "net/netip"

// The part of the book that is our own page: here, and nowhere else, something is
// said.

// refute makes what we say count more than a report that accused us of having
// said something else: our clock was set back between two processes.
func (b *book) refute(r report) {
	b.own().incarnation = max(b.own().incarnation, r.incarnation) + 1
	b.sent = 0
}

func (b *book) own() *page { return b.pages[b.self] }

// tell changes what we say of ourselves; it says whether anything changed.
func (b *book) tell(change func(*info)) bool {
	own := b.own()
	next := own.info
	change(&next)
	if next.meta.equal(own.info.meta) && next.settled == own.info.settled && next.left == own.info.left {
		return false
	}
	own.floor++
	next.seq = own.floor
	own.info = next
	return true
}

// claim replaces our claims by these; it says whether anything changed.
func (b *book) claim(claims []Claim) (changed bool) {
	own := b.own()
	wanted := make(map[netip.Addr]bool, len(claims))
	set := func(address netip.Addr, s stake) {
		own.floor++
		s.seq = own.floor
		own.claims[address] = s
		changed = true
	}
	for _, c := range claims {
		address := c.Address.Unmap().WithZone("")
		wanted[address] = true
		have, ok := own.claims[address]
		if !ok || have.released || have.epoch != c.Epoch || have.up != c.Up {
			set(address, stake{epoch: c.Epoch, up: c.Up})
		}
	}
	for address, have := range own.claims {
		if !wanted[address] && !have.released {
			set(address, stake{released: true})
		}
	}
	own.former = nil
	// Last, so that who has read everything up to here has read all claims.
	return b.tell(func(i *info) { i.settled = true }) || changed
}

// unsent are our changes since the last call, in their order; ok is false when
// there are none. The proofs of released claims have then served their purpose:
// what the others need of them is in their own pages.
func (b *book) unsent() (r report, ok bool) {
	own := b.own()
	if b.sent == own.floor {
		return report{}, false
	}
	r = own.report(b.self, b.sent, -1)
	r.whole, r.after = false, b.sent
	b.sent = own.floor
	for address, s := range own.claims {
		if s.released {
			delete(own.claims, address)
		}
	}
	return r, true
}
