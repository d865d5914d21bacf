package snapshot

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// Strip is a range of addresses of a pool, cut into runs of addresses that are in the
// same state.
type Strip struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Runs are letters of states, each followed by how many addresses are in it:
	// "u3f12". A number of maxRun stands for all that are larger.
	Runs string `json:"runs"`
}

// Letters of states.
const (
	stripUsed     = 'u'
	stripSilent   = 's' // used, and nobody announces it
	stripReserved = 'r'
	stripNode     = 'n' // of a node, a gateway or a name server
	stripExcluded = 'x'
	stripKept     = 'k' // not handed out for another reason, as in a pool that is disabled
	stripFree     = 'f'
)

// maxRun is the largest number of addresses in a run.
const maxRun = 1 << 40

// maxFreeRanges is how many free ranges of a pool are told apart.
const maxFreeRanges = 1 << 16

// Strips returns the addresses of each pool, by its name.
func (s *Snapshot) Strips() map[string][]Strip {
	out := map[string][]Strip{}
	if s.Survey == nil {
		return out
	}
	marks := s.stripMarks()
	for i := range s.Survey.Pools {
		p := &s.Survey.Pools[i]
		own := marks
		if len(p.Reserved) > 0 {
			own = slices.Clone(marks)
			for a := range p.Reserved {
				own = append(own, mark{a, stripReserved})
			}
			own = sortMarks(own)
		}
		for _, f := range lb.Families {
			var known []segment
			for _, r := range s.Survey.Free(p.Key, f, maxFreeRanges) {
				known = append(known, segment{r, stripFree})
			}
			for _, r := range p.Excluded {
				if lb.FamilyOf(r.From()) == f {
					known = append(known, segment{r, stripExcluded})
				}
			}
			slices.SortStableFunc(known, func(a, b segment) int { return a.From().Compare(b.From()) })
			for _, r := range extent(p, f) {
				out[p.Key.String()] = append(out[p.Key.String()], Strip{From: r.From().String(), To: r.To().String(), Runs: runs(r, known, own)})
			}
		}
	}
	return out
}

// mark is an address that is in a state of its own.
type mark struct {
	netip.Addr
	letter byte
}

// segment is a range of addresses in the same state, but for marks.
type segment struct {
	netipx.IPRange
	letter byte
}

// sortMarks orders marks by address. Of several of one address, the first counts.
func sortMarks(all []mark) []mark {
	slices.SortStableFunc(all, func(a, b mark) int { return a.Compare(b.Addr) })
	return slices.CompactFunc(all, func(a, b mark) bool { return a.Addr == b.Addr })
}

// stripMarks are the addresses that Services have, and those of nodes and of what they
// use.
func (s *Snapshot) stripMarks() (out []mark) {
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		for _, a := range of.Published() {
			letter := byte(stripUsed)
			if _, silent := of.Silences[a.String()]; silent || of.Announced && s.isUnheard(a) {
				letter = stripSilent
			}
			out = append(out, mark{a, letter})
		}
	}
	for a := range nodeAddresses(s.Nodes) {
		out = append(out, mark{a, stripNode})
	}
	for i := range s.Agents {
		status := &s.Agents[i].Status
		for _, text := range slices.Concat(status.Gateways, status.NameServers) {
			if a, err := lb.ParseAddr(text); err == nil {
				out = append(out, mark{a, stripNode})
			}
		}
		for _, i := range status.Interfaces {
			for _, text := range i.Addresses {
				if p, err := netip.ParsePrefix(text); err == nil {
					out = append(out, mark{p.Addr(), stripNode})
				}
			}
		}
	}
	return sortMarks(out)
}

// runs cuts a range into runs.
func runs(r netipx.IPRange, known []segment, marks []mark) string {
	var out strings.Builder
	var last byte
	var n uint64
	add := func(letter byte, from, to netip.Addr) {
		if letter != last && last != 0 {
			out.WriteByte(last)
			out.WriteString(strconv.FormatUint(min(n, maxRun), 10))
			n = 0
		}
		last, n = letter, min(n+size(from, to), maxRun)
	}
	at, _ := slices.BinarySearchFunc(marks, r.From(), func(m mark, a netip.Addr) int { return m.Compare(a) })
	marks = marks[at:]
	// fill adds a segment, with the marks in it.
	fill := func(letter byte, from, to netip.Addr) {
		for len(marks) > 0 && marks[0].Compare(to) <= 0 {
			m := marks[0]
			marks = marks[1:]
			if from.Less(m.Addr) {
				add(letter, from, m.Prev())
			}
			add(m.letter, m.Addr, m.Addr)
			if from = m.Next(); !from.IsValid() || to.Less(from) {
				return
			}
		}
		add(letter, from, to)
	}
	next := r.From()
	for _, k := range known {
		from, to := k.From(), k.To()
		if from.Less(next) {
			from = next
		}
		if r.To().Less(to) {
			to = r.To()
		}
		if to.Less(from) {
			continue
		}
		if next.Less(from) {
			fill(stripKept, next, from.Prev())
		}
		fill(k.letter, from, to)
		if next = to.Next(); !next.IsValid() {
			break
		}
	}
	if next.IsValid() && next.Compare(r.To()) <= 0 {
		fill(stripKept, next, r.To())
	}
	add(0, r.To(), r.To()) // writes the last one
	return out.String()
}

// size is how many addresses there are from one to another, at most maxRun.
func size(from, to netip.Addr) uint64 {
	a, b := from.As16(), to.As16()
	high := binary.BigEndian.Uint64(b[:8]) - binary.BigEndian.Uint64(a[:8])
	x, y := binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:])
	low := y - x
	if y < x {
		high--
	}
	if high > 0 || low >= maxRun {
		return maxRun
	}
	return low + 1
}

// extent returns the ranges of a pool's addresses, with the excluded ones that touch them.
func extent(p *lb.Pool, f lb.Family) (out []netipx.IPRange) {
	var all netipx.IPSetBuilder
	for _, r := range slices.Concat(p.Spans, p.Excluded) {
		all.AddRange(r)
	}
	set, err := all.IPSet()
	if err != nil {
		return nil
	}
	for _, r := range set.Ranges() {
		if lb.FamilyOf(r.From()) == f && slices.ContainsFunc(p.Spans, r.Overlaps) {
			out = append(out, r)
		}
	}
	return out
}
