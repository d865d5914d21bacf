package member

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// inheritance is how long the claims of a process stand after another one has
	// followed it on the same node and said nothing: twice the kernel's fence,
	// since after one fence time nobody there answers any more.
	inheritance = 2 * time.Second
	// memory is how long what a lost node claimed is remembered, and how long its
	// address is tried: over a night. The API server lists nodes that are away for longer.
	memory = 24 * time.Hour
)

// book has a page for every node: what it has last sent. It is pure: no clock,
// no lock, no network.
//
// Each node numbers its changes. The number of a process (incarnation: the time
// of its start) goes before, so that what a process says counts more than
// anything that an earlier one has said, however often. A change that is older
// than what is known of its subject is dropped, whenever and however often it
// arrives: merging is commutative and idempotent.
type book struct {
	self  string
	pages map[string]*page
	sent  uint64 // changes of our own up to this one were handed out by unsent
	// claimed are the keys whose claims have changed since changes was last called;
	// turned is that anything else has: then those of any key may have.
	claimed map[Key]bool
	turned  bool
}

// page is what one node has sent.
type page struct {
	incarnation uint64
	// floor: every change up to this number is in the page or replaced by a later
	// one. So whatever is not here and not above the floor, is not.
	floor  uint64
	info   info
	claims map[Key]stake
	// former are the claims of the process before this one (see Inherited).
	former            map[Key]stake
	formerIncarnation uint64
	formerUntil       time.Time
	// lapsed: the node has been dead since this process was last heard, so its
	// claims are not inherited by the next one.
	lapsed bool
	// orphaned is since when the node is not a member; zero if it is one.
	orphaned time.Time
}

// info is what a node says about itself.
type info struct {
	seq     uint64
	meta    Meta
	settled bool // the process has sent its claims
	left    bool // it has taken its leave
}

// equal says whether the two say the same, whenever they were said.
func (i info) equal(o info) bool {
	return i.meta.equal(o.meta) && i.settled == o.settled && i.left == o.left
}

// stake is a claim as it is kept. A released one is kept until the floor rises
// above it, as the proof that older news of the same claim is old.
type stake struct {
	seq      uint64
	epoch    uint64
	up       bool
	released bool
	refused  bool
}

// report is what one member says about one node, itself or another one.
type report struct {
	node        string
	incarnation uint64
	// A whole report has all that stands up to floor. Another one has the changes
	// of the node after the number after and up to floor, unless floor is 0: then
	// some of what stands, for one who does not know the node.
	whole        bool
	after, floor uint64
	gone         time.Duration // for how long the node has been no member; negative: it is one
	info         info          // seq 0: not in this report
	claims       []entry
}

type entry struct {
	key Key
	stake
}

// outcome of a merge.
type outcome uint8

const (
	old     outcome = iota // nothing that was not known
	news                   // the page has changed
	accused                // somebody knows more of us than we have said: see refute
)

func newBook(self string, incarnation uint64, meta Meta) *book {
	own := &page{incarnation: incarnation, floor: 1, info: info{seq: 1, meta: meta.clone()}, claims: map[Key]stake{}}
	return &book{self: self, pages: map[string]*page{self: own}, claimed: map[Key]bool{}}
}

// merge takes in a report.
func (b *book) merge(r report, member bool, now time.Time) outcome {
	p, followed := b.pages[r.node], false
	switch {
	case r.node == b.self:
		if r.incarnation > p.incarnation || r.incarnation == p.incarnation && r.last() > p.floor {
			return accused
		}
		return b.inherit(r, now)
	case r.gone > memory:
		return old
	case p == nil:
		p = &page{incarnation: r.incarnation, claims: map[Key]stake{}}
		b.pages[r.node], b.turned = p, true
		if !member {
			p.orphaned = now.Add(-max(r.gone, 0))
		}
	case r.incarnation < p.incarnation:
		return old
	case r.incarnation > p.incarnation:
		p.succeed(r.incarnation, now)
		followed, b.turned = true, true
	}
	changed := b.take(p, r) || followed
	if p.former != nil && p.info.settled && p.floor >= p.info.seq {
		p.former, changed, b.turned = nil, true, true
	}
	if changed {
		return news
	}
	return old
}

// succeed begins the page of the next process on the node. What is known about
// the node itself stands until the new process has sent its own.
func (p *page) succeed(incarnation uint64, now time.Time) {
	next := page{
		incarnation: incarnation, info: info{meta: p.info.meta}, claims: map[Key]stake{},
		former: p.former, formerIncarnation: p.formerIncarnation, formerUntil: p.formerUntil, orphaned: p.orphaned,
	}
	if len(p.claims) > 0 || p.info.settled {
		next.former, next.formerIncarnation, next.formerUntil = p.claims, p.incarnation, now.Add(inheritance)
	}
	if p.lapsed {
		next.former = nil
	}
	*p = next
}

// inherit learns from another member what our predecessor claimed, unless the
// node was believed dead in between, or we have said ourselves what we claim.
func (b *book) inherit(r report, now time.Time) outcome {
	p := b.own()
	if !r.whole || r.gone >= 0 || p.info.settled || r.incarnation >= p.incarnation || r.incarnation <= p.formerIncarnation {
		return old
	}
	p.former, p.formerIncarnation, p.formerUntil = map[Key]stake{}, r.incarnation, now.Add(inheritance)
	for _, e := range r.claims {
		p.former[e.key] = e.stake
	}
	b.turned = true
	return news
}

// take merges into a page what a report of the same process says.
func (b *book) take(p *page, r report) (changed bool) {
	if r.whole && r.gone < 0 {
		p.lapsed = false
	}
	if r.info.seq > max(p.info.seq, p.floor) {
		if !r.info.equal(p.info) {
			changed, b.turned = true, true
		}
		p.info = r.info
	}
	listed := make(map[Key]bool, len(r.claims))
	for _, e := range r.claims {
		listed[e.key] = true
		if e.seq <= p.floor || e.seq <= p.claims[e.key].seq {
			continue
		}
		p.claims[e.key] = e.stake
		changed, b.claimed[e.key] = true, true
	}
	if r.floor <= p.floor || !r.whole && r.after > p.floor {
		return changed
	}
	p.floor = r.floor
	for key, s := range p.claims {
		if s.seq <= p.floor && (s.released || r.whole && !listed[key]) {
			delete(p.claims, key)
			if _, former := p.former[key]; former || !s.released {
				changed, b.claimed[key] = true, true
			}
			delete(p.former, key) // the process has said what it claims of it
		}
	}
	return changed
}

// last is the highest number in a report.
func (r report) last() uint64 {
	n := max(r.floor, r.info.seq)
	for _, e := range r.claims {
		n = max(n, e.seq)
	}
	return n
}

// whole is all that is known of a node.
func (b *book) whole(name string, now time.Time) report {
	p := b.pages[name]
	gone := time.Duration(-1)
	if !p.orphaned.IsZero() {
		gone = max(now.Sub(p.orphaned), 0)
	}
	return p.report(name, 0, gone)
}

func (p *page) report(name string, after uint64, gone time.Duration) report {
	r := report{node: name, incarnation: p.incarnation, whole: true, floor: p.floor, gone: gone}
	if p.info.seq > after {
		r.info = p.info
	}
	for key, s := range p.claims {
		if s.seq > after {
			r.claims = append(r.claims, entry{key, s})
		}
	}
	slices.SortFunc(r.claims, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return r
}

// all are the claims of everybody, by key, each as of has them.
func (b *book) all() map[Key][]Claim {
	claims := map[Key][]Claim{}
	for name, p := range b.pages {
		for key := range p.claims {
			p.append(claims, name, key)
		}
		for key := range p.former {
			if _, ok := p.claims[key]; !ok {
				p.append(claims, name, key)
			}
		}
	}
	for _, c := range claims {
		sortClaims(c)
	}
	return claims
}

// of are the claims of everybody to these keys: the best standing first, then the
// highest epoch, then by name.
func (b *book) of(keys map[Key]bool) map[Key][]Claim {
	claims := make(map[Key][]Claim, len(keys))
	for key := range keys {
		claims[key] = nil
		for name, p := range b.pages {
			p.append(claims, name, key)
		}
		sortClaims(claims[key])
	}
	return claims
}

// append adds what the node claims of a key, if anything.
func (p *page) append(claims map[Key][]Claim, node string, key Key) {
	s, held := p.claims[key]
	standing := Held
	if !held {
		var former bool
		if s, former = p.former[key]; !former {
			return
		}
		standing = Inherited
	}
	if !p.orphaned.IsZero() {
		standing = Orphaned
	}
	if !s.released {
		claims[key] = append(claims[key], Claim{key, node, s.epoch, s.up, s.refused, standing})
	}
}

func sortClaims(c []Claim) {
	slices.SortFunc(c, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Standing, b.Standing), cmp.Compare(b.Epoch, a.Epoch), strings.Compare(a.Node, b.Node))
	})
}

// changes returns what has changed since the last call. If more than claims has, claims
// is nil.
func (b *book) changes() (turned bool, claims map[Key][]Claim) {
	turned = b.turned
	if !turned {
		claims = b.of(b.claimed)
	}
	b.turned = false
	clear(b.claimed)
	return turned, claims
}

// orphan and adopt follow a node that leaves and comes.
func (b *book) orphan(name string, now time.Time) {
	if p := b.pages[name]; p != nil && name != b.self {
		p.orphaned, p.lapsed, b.turned = now, true, true
	}
}

func (b *book) adopt(name string) {
	if p := b.pages[name]; p != nil {
		p.orphaned, b.turned = time.Time{}, true
	}
}

// expire forgets what is no longer worth anything; it says whether any claim is
// affected.
func (b *book) expire(now time.Time) (changed bool) {
	for _, p := range b.pages {
		if p.former != nil && now.After(p.formerUntil) {
			p.former, changed = nil, true
		}
	}
	size := len(b.pages)
	maps.DeleteFunc(b.pages, func(_ string, p *page) bool {
		return !p.orphaned.IsZero() && now.Sub(p.orphaned) > memory
	})
	changed = changed || len(b.pages) < size
	b.turned = b.turned || changed
	return changed
}
