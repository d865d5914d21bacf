package controller

import (
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// silences remembers since when nobody answers for which address, so that only what
// lasts is told.
type silences struct {
	all map[string]*lasting
}

// lasting is one of them.
type lasting struct {
	silence
	since time.Time  // as it is
	told  *lb.Reason // nil if it has not lasted yet
	ended time.Time  // when it was over, where that has to last as well
}

// update takes over what was found. It returns the Services of addresses of which
// something else is to be told (everyone, if it is so for all), and when more will be;
// 0 is never.
func (s *silences) update(found map[string]silence, now time.Time) (changed []string, everyone bool, next time.Duration) {
	if s.all == nil {
		s.all = map[string]*lasting{}
	}
	soon := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	tell := func(address string, l *lasting) {
		changed, everyone = append(changed, l.services...), everyone || address == everyAddress
	}
	for address, f := range found {
		l := s.all[address]
		if l == nil || !l.reason.Equal(f.reason) {
			was := l
			if l = (&lasting{silence: f, since: now}); was != nil {
				l.told = was.told
			}
			s.all[address] = l
		}
		l.services, l.ended = f.services, time.Time{}
		if l.told != nil && l.told.Equal(l.reason) {
			continue
		}
		if rest := l.since.Add(f.wait).Sub(now); rest > 0 {
			soon(rest)
			continue
		}
		l.told = &l.reason
		tell(address, l)
	}
	_, none := found[everyAddress]
	for address, l := range s.all {
		if _, still := found[address]; still {
			continue
		}
		switch {
		case none && s.all[everyAddress].told == nil:
			continue // it is not better than before
		case address == everyAddress && l.told != nil:
			// The first agent that is back has still to look at what there is.
			if l.ended.IsZero() {
				l.ended = now
			}
			if rest := l.ended.Add(silenceWait).Sub(now); rest > 0 {
				soon(rest)
				continue
			}
		}
		delete(s.all, address)
		if l.told != nil {
			tell(address, l)
		}
	}
	return changed, everyone, next
}

// of is what is to be told of addresses, nil if nothing is. What a Service says already
// (have) stays as long as that is not certain.
func (s *silences) of(addresses []netip.Addr, have *lb.Condition) *lb.Reason {
	var out *lb.Reason
	pending := false
	for _, key := range append([]string{everyAddress}, prose.Texts(addresses)...) {
		l := s.all[key]
		switch {
		case l == nil || len(addresses) == 0:
		case l.told == nil:
			pending = true
		case out == nil:
			reason := *l.told
			out = &reason
		case key != everyAddress && s.all[everyAddress] == nil:
			*out = out.And(*l.told)
		}
	}
	if out == nil && pending && have != nil {
		out = &have.Reason
	}
	return out
}
