package member

// split makes messages of a report, each small enough for a packet; only one
// with an info that does not fit is larger.
//
// The parts of a list of changes are such lists themselves, each beginning where
// the one before it ends. A whole that does not fit is split into parts that say
// nothing about what they do not list.
func split(r report) [][]byte {
	if m := encode(r); len(m) <= messageSize {
		return [][]byte{m}
	}
	part := r
	part.claims, part.info, part.whole = nil, info{}, false
	if r.whole {
		part.after, part.floor = 0, 0
	}
	overhead := len(encode(part)) + 16 // and as much for longer numbers in it
	var messages [][]byte
	size, after := overhead, r.after
	flush := func(through uint64) {
		if part.info.seq == 0 && len(part.claims) == 0 {
			return
		}
		if !r.whole {
			part.after, part.floor = after, through
			after = through
		}
		messages = append(messages, encode(part))
		part.claims, part.info, size = nil, info{}, overhead
	}
	var last uint64
	add := func(seq uint64, length int, put func()) {
		if size+length > messageSize {
			flush(last)
		}
		put()
		size += length
		last = seq
	}
	addInfo := func() {
		add(r.info.seq, len(appendInfo(nil, r.info))+2, func() { part.info = r.info })
	}
	added := r.info.seq == 0
	for _, e := range r.claims {
		if !added && r.info.seq < e.seq {
			addInfo()
			added = true
		}
		add(e.seq, len(appendEntry(nil, e)), func() { part.claims = append(part.claims, e) })
	}
	if !added {
		addInfo()
	}
	flush(r.floor)
	return messages
}
