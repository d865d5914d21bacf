package member

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
	if next.equal(own.info) {
		return false
	}
	b.turned = true
	own.floor++
	next.seq = own.floor
	own.info = next
	return true
}

// claim replaces our claims by these, without those that cannot be sent; it says whether anything changed.
func (b *book) claim(claims []Claim) (changed bool) {
	wanted := make(map[Key]bool, len(claims))
	for _, c := range claims {
		wanted[c.Key.normal()] = true
	}
	var released []Key
	for key := range b.own().claims {
		if !wanted[key] {
			released = append(released, key)
		}
	}
	changed = b.reclaim(claims, released)
	if own := b.own(); own.former != nil {
		own.former, b.turned = nil, true
	}
	// Last, so that a member that has read up to here has read all claims.
	return b.tell(func(i *info) { i.settled = true }) || changed
}

// reclaim changes single claims, and releases others; it says whether anything changed.
func (b *book) reclaim(claims []Claim, released []Key) (changed bool) {
	own := b.own()
	set := func(key Key, s stake) {
		own.floor++
		s.seq = own.floor
		own.claims[key] = s
		changed, b.claimed[key] = true, true
	}
	for _, c := range claims {
		key := c.Key.normal()
		if !key.valid() {
			continue
		}
		have, ok := own.claims[key]
		if !ok || have.released || have.epoch != c.Epoch || have.up != c.Up || have.refused != c.Refused {
			set(key, stake{epoch: c.Epoch, up: c.Up, refused: c.Refused})
		}
	}
	for _, key := range released {
		key = key.normal()
		if have, ok := own.claims[key]; ok && !have.released {
			set(key, stake{released: true})
		}
	}
	return changed
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
	for key, s := range own.claims {
		if s.released {
			delete(own.claims, key)
		}
	}
	return r, true
}
