package moves

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.io/internal/conntrack"
)

// open are connections that are open.
func open(conns []conntrack.Conn) (out []conntrack.Tracked) {
	for _, c := range conns {
		out = append(out, conntrack.Tracked{Conn: c})
	}
	return out
}

func opening(conns []conntrack.Conn) (out []conntrack.Tracked) {
	for _, c := range conns {
		out = append(out, conntrack.Tracked{Conn: c, Opening: true})
	}
	return out
}

// asked is a lister of an address that was given up, for which another node asks.
func asked(now time.Time) *Lister {
	l := NewLister()
	l.Hold(vip4)
	l.Release(vip4, now)
	l.Want("b", Want{Stream: 1, Addresses: map[netip.Addr]uint64{vip4: 1}})
	return l
}

// has is how many connections of the address a lister has that are open, and how many that are not.
func has(l *Lister) (open, opening int) {
	t := l.tables[vip4]
	return len(t.conns) - len(t.opening), len(t.opening)
}

// However often a flood of connections that nobody opens is read or told, few of them are listed.
func TestFloodIsNotListed(t *testing.T) {
	now := time.Unix(1000, 0)
	l := asked(now)
	for i := range 10 {
		flood := conns(vip4, 1000+i*2*maxOpening, 2*maxOpening)
		l.Begin()
		for _, c := range flood[maxOpening:] { // while connections are read
			l.Change([]conntrack.Change{{Conn: c, Opening: true}})
		}
		if len(l.reading) > 2*maxOpening {
			t.Fatalf("%d changes are kept", len(l.reading))
		}
		l.Read(l.Following(), slices.Concat(opening(flood), open(conns(vip4, 0, 100))), now)
		l.Lose()
		if open, opening := has(l); open != 100 || opening != maxOpening {
			t.Fatalf("after reading %d it lists %d open connections and %d others", i+1, open, opening)
		}
	}
	if n := l.Listed(); n != 100 {
		t.Errorf("a node that leaves waits for %d connections, want 100", n)
	}
}

// One that is open takes the place of one that is not.
func TestOpenConnectionsComeFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	l := asked(now)
	l.Begin()
	all := make([]conntrack.Conn, MaxListed+1)
	for i := range all {
		all[i] = conntrack.Conn{Protocol: 6, Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1000), Service: netip.AddrPortFrom(vip4, 80)}
	}
	l.Read(l.Following(), slices.Concat(opening(all[:2]), open(all[2:MaxListed])), now)
	if open, opening := has(l); open != MaxListed-2 || opening != 2 {
		t.Fatalf("it lists %d open connections and %d others", open, opening)
	}
	l.Change([]conntrack.Change{{Conn: all[MaxListed]}})
	if open, opening := has(l); open != MaxListed-1 || opening != 1 || !l.Has(all[MaxListed]) {
		t.Errorf("then it lists %d open connections and %d others", open, opening)
	}
	pages := l.Pages("b", nil, now)
	last := pages[len(pages)-1].Parts[0].Add
	if l.tables[vip4].opening[pages[0].Parts[0].Add[0]] || !l.tables[vip4].opening[last[len(last)-1]] {
		t.Error("what is being opened is not listed last")
	}
}

// A connection that is being opened is listed, and counts when it is open.
func TestConnectionIsOpened(t *testing.T) {
	now := time.Unix(1000, 0)
	l := asked(now)
	l.Begin()
	l.Read(l.Following(), nil, now)
	c := conn(vip4, 0)
	for _, step := range []struct {
		change conntrack.Change
		has    bool
		listed int
	}{
		{conntrack.Change{Conn: c, Opening: true}, true, 0},
		{conntrack.Change{Conn: c, Opening: true}, true, 0},
		{conntrack.Change{Conn: c}, true, 1},
		{conntrack.Change{Conn: c, Opening: true}, true, 1}, // an answer that comes again
		{conntrack.Change{Conn: c, Gone: true}, false, 0},
		{conntrack.Change{Conn: c, Opening: true}, true, 0},
		{conntrack.Change{Conn: c, Gone: true}, false, 0},
	} {
		l.Change([]conntrack.Change{step.change})
		if l.Has(c) != step.has || l.Listed() != step.listed {
			t.Errorf("after %+v: there %t, listed %d", step.change, l.Has(c), l.Listed())
		}
	}
	if _, opening := has(l); opening != 0 {
		t.Errorf("%d are being opened", opening)
	}
}
