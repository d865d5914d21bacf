package moves

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/conntrack"
)

const (
	// linger is for how long a node that gave an address up expects connections: hosts on the
	// LAN may not have heard of the move.
	linger = 30 * time.Second
	// Reread is how often the connections are read again that are listed, in case that a
	// change was lost.
	Reread = 15 * time.Second
	// releasedFor is for how long it is remembered when an address was given up: longer than
	// connections are kept.
	releasedFor = 24 * time.Hour
	// maxClean is of how many addresses it is remembered that they have no connections here.
	maxClean = 1 << 14
	// rereadLost is the least time between readings because changes were lost: on a busy node,
	// more may be lost during each.
	rereadLost = time.Second
	// maxOpening is how many connections of an address are listed that are being opened. Anybody
	// who forges source addresses can have more, which must not take the place of others.
	maxOpening = 1 << 8
)

// Lister is the side of a former node: it knows the connections that this node has, and lists
// them to nodes that ask. It is not safe for concurrent use.
type Lister struct {
	// Local says whether a client is on this node, whose packets never leave it.
	Local func(netip.Addr) bool
	// Series numbers the series of pages. It begins with a random number, so that pages of an
	// earlier agent are not continued.
	Series uint64

	here     map[netip.Addr]bool
	released map[netip.Addr]time.Time
	pruned   time.Time // when old ones of these were forgotten
	// clean addresses have no connections here, and get none: they were not here since.
	clean  map[netip.Addr]bool
	tables map[netip.Addr]*table
	askers map[string]*asker
	// reading has the changes since a reading began; nil if there is none.
	reading []conntrack.Change
}

// table has the connections of one address.
type table struct {
	conns   map[conntrack.Conn]bool
	opening map[conntrack.Conn]bool // those of conns that are not open yet
	changes uint64                  // of conns
	read    time.Time               // when the last reading began; zero: none has ended yet
	pinned  bool                    // known, though nobody asks
	lost    bool                    // changes were
}

// asker is a node that asks.
type asker struct {
	stream, next uint64
	series       uint64
	wants        map[netip.Addr]*listing
	beat         bool // it asks whether there is more
}

// listing is what an asker has of one address.
type listing struct {
	epoch              uint64
	sent               map[conntrack.Conn]bool
	begun, final, over bool
	changes            uint64
}

// NewLister returns one that knows of nothing.
func NewLister() *Lister {
	return &Lister{Local: func(netip.Addr) bool { return false }, here: map[netip.Addr]bool{}, released: map[netip.Addr]time.Time{},
		clean: map[netip.Addr]bool{}, tables: map[netip.Addr]*table{}, askers: map[string]*asker{}}
}

// Hold says that this node announces addr from now on.
func (l *Lister) Hold(addr netip.Addr) {
	l.here[addr] = true
	delete(l.clean, addr)
	delete(l.released, addr)
}

// Release says that it does not any more.
func (l *Lister) Release(addr netip.Addr, now time.Time) {
	if !l.here[addr] {
		return
	}
	delete(l.here, addr)
	l.released[addr] = now
	if now.Sub(l.pruned) < time.Hour {
		return
	}
	l.pruned = now
	maps.DeleteFunc(l.released, func(addr netip.Addr, at time.Time) bool { return l.tables[addr] == nil && now.Sub(at) >= releasedFor })
}

// Pin has the connections of addresses known, besides those that are asked for: these and no
// others.
func (l *Lister) Pin(addrs map[netip.Addr]bool) {
	for addr := range addrs {
		l.table(addr).pinned = true
	}
	for addr, t := range l.tables {
		t.pinned = addrs[addr]
	}
	l.tidy()
}

// Want takes over what a node asks for.
func (l *Lister) Want(node string, w Want) {
	a := l.askers[node]
	if a == nil || a.stream != w.Stream {
		l.Series++
		a = &asker{stream: w.Stream, series: l.Series, wants: map[netip.Addr]*listing{}}
		l.askers[node] = a
	}
	a.beat = true
	for addr, epoch := range w.Addresses {
		if have := a.wants[addr]; have == nil || have.epoch != epoch {
			a.wants[addr] = &listing{epoch: epoch, sent: map[conntrack.Conn]bool{}}
		}
		if !l.clean[addr] {
			l.table(addr)
		}
	}
	maps.DeleteFunc(a.wants, func(addr netip.Addr, _ *listing) bool {
		_, wanted := w.Addresses[addr]
		return !wanted
	})
	l.tidy()
}

// Forget forgets a node that asked.
func (l *Lister) Forget(node string) {
	delete(l.askers, node)
	l.tidy()
}

// Askers are the nodes that ask.
func (l *Lister) Askers() []string { return slices.Sorted(maps.Keys(l.askers)) }

func (l *Lister) table(addr netip.Addr) *table {
	t := l.tables[addr]
	if t == nil {
		t = newTable()
		l.tables[addr] = t
	}
	return t
}

func newTable() *table {
	return &table{conns: map[conntrack.Conn]bool{}, opening: map[conntrack.Conn]bool{}}
}

// add adds a connection, or says that it is open by now, as far as there is room: one that is
// open takes the place of one that is not. It returns whether the connection is in the table.
func (t *table) add(c conntrack.Tracked) bool {
	switch known := t.conns[c.Conn]; {
	case known && !c.Opening:
		delete(t.opening, c.Conn)
		return true
	case known:
		return true
	case c.Opening && (len(t.opening) >= maxOpening || len(t.conns) >= MaxListed):
		return false
	case len(t.conns) >= MaxListed && len(t.opening) == 0:
		return false
	case len(t.conns) >= MaxListed:
		for other := range t.opening {
			t.remove(other)
			break
		}
	}
	t.conns[c.Conn] = true
	if c.Opening {
		t.opening[c.Conn] = true
	}
	t.changes++
	return true
}

func (t *table) remove(c conntrack.Conn) {
	if t.conns[c] {
		delete(t.conns, c)
		delete(t.opening, c)
		t.changes++
	}
}

// tidy forgets tables that nobody needs.
func (l *Lister) tidy() {
	needed := map[netip.Addr]bool{}
	for _, a := range l.askers {
		for addr, w := range a.wants {
			needed[addr] = needed[addr] || !w.over
		}
	}
	maps.DeleteFunc(l.tables, func(addr netip.Addr, t *table) bool { return !t.pinned && !needed[addr] })
}

// Follows says whether connections of addr are to be known. Following says whether those of any
// address are.
func (l *Lister) Follows(addr netip.Addr) bool { return l.tables[addr] != nil }

// Following are the addresses whose connections are to be known.
func (l *Lister) Following() []netip.Addr { return slices.Collect(maps.Keys(l.tables)) }

// Unread says whether a reading of all connections is due.
func (l *Lister) Unread(now time.Time) bool {
	for addr, t := range l.tables {
		switch {
		case t.read.IsZero(), !l.here[addr] && t.read.Before(l.released[addr]), now.Sub(t.read) >= Reread, t.lost && now.Sub(t.read) >= rereadLost:
			return true
		}
	}
	return false
}

// Begin begins a reading: changes from now on count more than what it finds.
func (l *Lister) Begin() {
	l.reading = []conntrack.Change{}
	for _, t := range l.tables {
		t.lost = false
	}
}

// Rank says which connections a reading that begins now is to find in any case, those that are
// known, and which it is not to find. It may be called from any goroutine.
func (l *Lister) Rank() func(conntrack.Conn) conntrack.Rank {
	known := map[conntrack.Conn]bool{}
	for _, t := range l.tables {
		maps.Copy(known, t.conns)
	}
	local := l.Local
	return func(c conntrack.Conn) conntrack.Rank {
		switch {
		case local(c.Client.Addr()):
			return conntrack.Unwanted
		case known[c]:
			return conntrack.Known
		}
		return conntrack.Other
	}
}

// Read takes over what a reading has found that began at that time, of the addresses that were
// followed then. What it has not found is gone, if it was known.
func (l *Lister) Read(followed []netip.Addr, found []conntrack.Tracked, begun time.Time) {
	now := map[netip.Addr]*table{}
	for _, addr := range followed {
		now[addr] = newTable()
	}
	// Of too many, those that are open, and of these the ones that are listed already.
	for _, opening := range []bool{false, true} {
		for _, known := range []bool{true, false} {
			for _, c := range found {
				if of := now[c.Service.Addr()]; of != nil && c.Opening == opening && l.Has(c.Conn) == known && !l.Local(c.Client.Addr()) {
					of.add(c)
				}
			}
		}
	}
	for addr, found := range now {
		t := l.tables[addr]
		if t == nil {
			continue
		}
		if !maps.Equal(t.conns, found.conns) {
			t.conns = found.conns
			t.changes++
		}
		t.opening = found.opening
		t.read = begun
	}
	changes := l.reading
	l.reading = nil
	l.Change(changes)
}

// Change takes over changes.
func (l *Lister) Change(changes []conntrack.Change) {
	for _, c := range changes {
		t := l.tables[c.Conn.Service.Addr()]
		switch {
		case c.Lost || t == nil:
			continue
		case c.Gone:
			t.remove(c.Conn)
		case l.Local(c.Conn.Client.Addr()):
			continue
		case !t.add(conntrack.Tracked{Conn: c.Conn, Opening: c.Opening}) && c.Opening:
			continue // nor may they fill the memory
		}
		if l.reading != nil {
			l.reading = append(l.reading, c)
		}
	}
}

// Lose says that changes may have been lost: all is to be read again.
func (l *Lister) Lose() {
	for _, t := range l.tables {
		t.lost = true
	}
}

// Has says whether this node has a connection.
func (l *Lister) Has(c conntrack.Conn) bool {
	t := l.tables[c.Service.Addr()]
	return t != nil && t.conns[c]
}

// Version changes whenever the connections of addr do.
func (l *Lister) Version(addr netip.Addr) uint64 {
	if t := l.tables[addr]; t != nil {
		return t.changes
	}
	return 0
}

// Listed is how many open connections this node has of addresses that it does not announce and
// that another node asks for.
func (l *Lister) Listed() (n int) {
	for addr, t := range l.tables {
		if l.here[addr] {
			continue
		}
		for _, a := range l.askers {
			if a.wants[addr] != nil {
				n += len(t.conns) - len(t.opening)
				break
			}
		}
	}
	return n
}

// Pages returns what is to be told to a node that asks.
func (l *Lister) Pages(node string, neighbours []Neighbour, now time.Time) (pages []Page) {
	a := l.askers[node]
	if a == nil {
		return nil
	}
	page := Page{Stream: a.stream, Series: a.series, Number: a.next}
	if a.next == 0 {
		page.Neighbours = neighbours[:min(len(neighbours), maxNeighbours)]
	}
	room := maxPage
	flush := func() {
		if len(page.Parts) == 0 {
			return
		}
		pages = append(pages, page)
		a.next++
		page = Page{Stream: a.stream, Series: a.series, Number: a.next}
		room = maxPage
	}
	listed := 0
	for _, w := range a.wants {
		listed += len(w.sent)
	}
	for _, addr := range slices.SortedFunc(maps.Keys(a.wants), netip.Addr.Compare) {
		part, ok := l.part(addr, a.wants[addr], &listed, now)
		for ok {
			piece := part.cut(room)
			page.Parts = append(page.Parts, piece)
			room -= len(piece.Add) + len(piece.Remove)
			if ok = !piece.Done; ok || room == 0 {
				flush()
			}
		}
	}
	flush()
	if len(pages) == 0 && a.beat && a.next > 0 {
		pages = append(pages, page)
	}
	a.beat = false
	l.tidy()
	return pages
}

// part is what has changed for an asker about an address, if anything.
func (l *Lister) part(addr netip.Addr, w *listing, listed *int, now time.Time) (p Part, ok bool) {
	t := l.tables[addr]
	p = Part{Address: addr, Epoch: w.epoch, Whole: !w.begun, Done: true, Released: -1}
	if at := l.released[addr]; !at.IsZero() {
		p.Released = now.Sub(at)
	}
	switch {
	case w.over:
		return Part{}, false
	case l.clean[addr] && t == nil:
		p.Final, p.Over = true, true
	case t == nil || t.read.IsZero():
		return Part{}, false
	default:
		p.Final = !l.here[addr] && !t.read.Before(l.released[addr])
		if !w.begun || w.changes != t.changes {
			p.Add, p.Remove = difference(w.sent, t.conns)
			slices.SortStableFunc(p.Add, func(a, b conntrack.Conn) int { return order(t.opening[a], t.opening[b]) }) // open ones first
			p.Add = p.Add[:min(len(p.Add), MaxListed-*listed+len(p.Remove))]
			*listed += len(p.Add) - len(p.Remove)
		}
		p.Over = p.Final && len(t.conns) == 0 && now.Sub(l.released[addr]) >= linger
		w.changes = t.changes
	}
	if w.begun && len(p.Add)+len(p.Remove) == 0 && p.Final == w.final && !p.Over {
		return Part{}, false
	}
	for _, c := range p.Add {
		w.sent[c] = true
	}
	for _, c := range p.Remove {
		delete(w.sent, c)
	}
	w.begun, w.final, w.over = true, p.Final, p.Over
	if p.Over {
		if len(l.clean) >= maxClean { // who asks again costs a reading, no more
			clear(l.clean)
		}
		l.clean[addr] = true
	}
	return p, true
}

// difference is what turns have into want.
func difference(have, want map[conntrack.Conn]bool) (add, remove []conntrack.Conn) {
	for c := range want {
		if !have[c] {
			add = append(add, c)
		}
	}
	for c := range have {
		if !want[c] {
			remove = append(remove, c)
		}
	}
	return add, remove
}

// order puts what is not so before what is.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// cut takes as much off a part as there is room for. Only the last piece is Done.
func (p *Part) cut(room int) Part {
	piece := *p
	n := min(room, len(p.Add))
	piece.Add, p.Add = p.Add[:n], p.Add[n:]
	m := min(room-n, len(p.Remove))
	piece.Remove, p.Remove = p.Remove[:m], p.Remove[m:]
	if len(p.Add)+len(p.Remove) > 0 {
		piece.Done, piece.Final, piece.Over = false, false, false
	}
	p.Whole = false
	return piece
}
