package member

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	vip   = netip.MustParseAddr("192.0.2.1")
	vip2  = netip.MustParseAddr("192.0.2.2")
	vip6  = netip.MustParseAddr("2001:db8::1")
	epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ready = Meta{
		Eligible: true, Links: []Link{{Name: "eth0", V4: true}, {Name: "eth1", V4: true, V6: true}},
		MACs: []net.HardwareAddr{{2, 0, 0, 0, 0, 1}},
	}
)

// speaker is a node that says things; what it says is kept to be delivered.
type speaker struct {
	*book
	said []report
}

func newSpeaker(name string, incarnation uint64) *speaker {
	return &speaker{book: newBook(name, incarnation, ready)}
}

func (s *speaker) say(claims ...Claim) report {
	s.claim(claims)
	r, _ := s.unsent()
	s.said = append(s.said, r)
	return r
}

func up(address netip.Addr, epoch uint64) Claim {
	return Claim{Key: Addr(address), Epoch: epoch, Up: true}
}

// known are the claims on an address in short: standing, node, epoch.
func known(b *book, address netip.Addr) (all []string) {
	for _, c := range b.all()[Addr(address)] {
		all = append(all, c.Standing.String()+" "+c.Node+" "+string(rune('0'+c.Epoch)))
	}
	return all
}

func TestMergeIgnoresOrderAndRepetition(t *testing.T) {
	a := newSpeaker("a", 100)
	first, second, third := a.say(up(vip, 1)), a.say(up(vip, 2), up(vip2, 1)), a.say(up(vip2, 1))
	whole := a.whole("a", epoch)
	for name, order := range map[string][]report{
		"in order":               {first, second, third},
		"backwards":              {third, second, first},
		"twice":                  {first, first, second, third, second, first},
		"whole, then late":       {whole, second, first, third},
		"late between wholes":    {first, whole, second, whole},
		"the first was lost":     {second, third},
		"only the last exchange": {whole},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook("b", 1, Meta{})
			for _, r := range order {
				b.merge(r, true, epoch)
			}
			if got := known(b, vip); got != nil {
				t.Errorf("the released address is claimed: %v", got)
			}
			if diff := cmp.Diff([]string{"held a 1"}, known(b, vip2)); diff != "" {
				t.Error(diff)
			}
			if name != "the first was lost" && !b.pages["a"].info.meta.equal(ready) {
				t.Errorf("meta %+v", b.pages["a"].info.meta)
			}
		})
	}
}

func TestMergeSaysWhatIsNews(t *testing.T) {
	a := newSpeaker("a", 100)
	b := newBook("b", 1, Meta{})
	first, second := a.say(up(vip, 1)), a.say(up(vip, 1), up(vip6, 7))
	for i, step := range []struct {
		r    report
		want outcome
	}{{first, news}, {first, old}, {second, news}, {first, old}, {a.whole("a", epoch), old}} {
		if got := b.merge(step.r, true, epoch); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
}

// What is known after a full exchange stands, though the other knew less of it.
func TestMergeKeepsWhatIsNewerThanAnExchange(t *testing.T) {
	a := newSpeaker("a", 100)
	b := newBook("b", 1, Meta{})
	b.merge(a.say(up(vip, 1)), true, epoch)
	before := a.whole("a", epoch)
	a.say(up(vip, 1), up(vip2, 1)) // lost
	latest := a.say(up(vip, 1), up(vip2, 1), up(vip6, 1))
	b.merge(latest, true, epoch)
	before.floor++ // of one who has heard a little more
	b.merge(before, true, epoch)
	if got := known(b, vip6); !slices.Equal(got, []string{"held a 1"}) {
		t.Errorf("got %v", got)
	}
}

func TestMergeIgnoresLateMeta(t *testing.T) {
	a := newSpeaker("a", 100)
	b := newBook("b", 1, Meta{})
	early, _ := a.unsent()
	a.tell(func(i *info) { i.meta.Leaving = true })
	late, _ := a.unsent()
	for _, r := range []report{late, early} {
		b.merge(r, true, epoch)
	}
	if !b.pages["a"].info.meta.Leaving {
		t.Error("the node leaves no more")
	}
}

// A new process counts from 1 again; nothing of the old one may count any more.
func TestMergeAfterRestart(t *testing.T) {
	before := newSpeaker("a", 100)
	late := before.say(up(vip, 1))
	for range 50 {
		late = before.say(up(vip, 1), up(vip2, uint64(len(before.said))))
	}
	after := newSpeaker("a", 200)
	b := newBook("b", 1, Meta{})
	b.merge(late, true, epoch)
	b.merge(after.say(up(vip6, 3)), true, epoch)
	b.merge(late, true, epoch)
	b.merge(before.whole("a", epoch), true, epoch)
	for address, want := range map[netip.Addr][]string{vip: nil, vip2: nil, vip6: {"held a 3"}} {
		if diff := cmp.Diff(want, known(b, address)); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
}

func TestInheritance(t *testing.T) {
	silent := newSpeaker("a", 200)
	hello, _ := silent.unsent() // says who it is, not yet what it claims
	start := func() *book {
		b := newBook("b", 1, Meta{})
		b.merge(newSpeaker("a", 100).say(up(vip, 1)), true, epoch)
		return b
	}

	b := start()
	if b.merge(hello, true, epoch) != news {
		t.Error("a new process is no news")
	}
	if diff := cmp.Diff([]string{"inherited a 1"}, known(b, vip)); diff != "" {
		t.Error("while it is silent:", diff)
	}
	b.expire(epoch.Add(inheritance))
	if known(b, vip) == nil {
		t.Error("the inheritance ends too early")
	}
	if !b.expire(epoch.Add(inheritance + 1)) {
		t.Error("the end of the inheritance is no change")
	}
	if got := known(b, vip); got != nil {
		t.Errorf("when it was silent for too long: %v", got)
	}

	b = start()
	b.merge(hello, true, epoch)
	b.merge(silent.say(up(vip2, 1)), true, epoch)
	if got := known(b, vip); got != nil {
		t.Errorf("when it has said that it claims something else: %v", got)
	}

	b = start()
	settled := newSpeaker("a", 300)
	settled.tell(func(i *info) { i.meta.Eligible = false })
	settled.unsent() // lost
	claims := settled.say(up(vip, 1))
	end := claims
	end.claims, end.after = nil, claims.info.seq-1 // the second of two packets
	b.merge(end, true, epoch)
	if diff := cmp.Diff([]string{"inherited a 1"}, known(b, vip)); diff != "" {
		t.Error("when not all that it has said has arrived:", diff)
	}

	b = start()
	b.orphan("a", epoch)
	if diff := cmp.Diff([]string{"orphaned a 1"}, known(b, vip)); diff != "" {
		t.Error("when the node is dead:", diff)
	}
	b.adopt("a")
	b.merge(hello, true, epoch)
	if got := known(b, vip); got != nil {
		t.Errorf("when the node was dead in between: %v", got)
	}
}

// After a heal the same process is still there, and what it claims counts again.
func TestAdoption(t *testing.T) {
	a := newSpeaker("a", 100)
	b := newBook("b", 1, Meta{})
	b.merge(a.say(up(vip, 1)), true, epoch)
	b.orphan("a", epoch)
	b.adopt("a")
	if diff := cmp.Diff([]string{"held a 1"}, known(b, vip)); diff != "" {
		t.Error(diff)
	}
}

func TestOrphansAreForgottenByEverybody(t *testing.T) {
	a := newSpeaker("a", 100)
	b, c := newBook("b", 1, Meta{}), newBook("c", 1, Meta{})
	b.merge(a.say(up(vip, 1)), true, epoch)
	b.orphan("a", epoch)
	later := epoch.Add(memory - time.Hour)
	c.merge(b.whole("a", later), false, later) // c has never met a
	if diff := cmp.Diff([]string{"orphaned a 1"}, known(c, vip)); diff != "" {
		t.Fatal(diff)
	}
	end := epoch.Add(memory + time.Minute)
	old := c.whole("a", end)
	if !b.expire(end) || !c.expire(end) {
		t.Error("nothing was forgotten")
	}
	b.merge(old, false, end)
	if known(b, vip) != nil || known(c, vip) != nil {
		t.Error("what was forgotten is back")
	}
}

// A clock that was set back makes a process look older than its predecessor.
func TestRefute(t *testing.T) {
	b := newBook("b", 1, Meta{})
	b.merge(newSpeaker("a", 500).say(up(vip, 1)), true, epoch)
	a := newSpeaker("a", 100)
	b.merge(a.say(up(vip2, 2)), true, epoch)
	rumour := b.whole("a", epoch)
	if a.merge(rumour, true, epoch) != accused {
		t.Fatal("a node does not notice that it is not believed")
	}
	a.refute(rumour)
	r, ok := a.unsent()
	if !ok {
		t.Fatal("it says nothing against it")
	}
	b.merge(r, true, epoch)
	if known(b, vip) != nil || !slices.Equal(known(b, vip2), []string{"held a 2"}) {
		t.Errorf("got %v and %v", known(b, vip), known(b, vip2))
	}
	if a.merge(b.whole("a", epoch), true, epoch) != old {
		t.Error("it is still accused")
	}
}

// Whatever is lost, repeated and overtaken on the way, and whoever passes it on:
// nobody ever believes something older than what it has believed before, and
// after everybody has met everybody all believe what was said last.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addresses := []netip.Addr{vip, vip2, vip6}
		speakers := []*speaker{newSpeaker("a", 100), newSpeaker("b", 100), newSpeaker("c", 100)}
		var air []report
		highest := make([]map[Key]uint64, len(speakers)) // epochs of a, as believed
		for i := range highest {
			highest[i] = map[Key]uint64{}
		}
		deliver := func(r report, to int) {
			speakers[to].merge(r, true, epoch)
			for address, claims := range speakers[to].all() {
				for _, c := range claims {
					if c.Node == "a" && c.Epoch < highest[to][address] {
						t.Fatalf("%s went back from epoch %d to %d of %s", speakers[to].self, highest[to][address], c.Epoch, address)
					} else if c.Node == "a" {
						highest[to][address] = c.Epoch
					}
				}
			}
		}
		count := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			who := rapid.IntRange(0, 2).Draw(t, "who")
			s := speakers[who]
			switch rapid.SampledFrom([]string{"say", "say", "deliver", "deliver", "deliver", "exchange", "restart"}).Draw(t, "what") {
			case "say":
				count++
				var claims []Claim
				for _, a := range addresses {
					if rapid.Bool().Draw(t, "claims") {
						claims = append(claims, up(a, count))
					}
				}
				s.claim(claims)
				if r, ok := s.unsent(); ok {
					for _, m := range split(r) {
						part, err := decode(m)
						if err != nil {
							t.Fatal(err)
						}
						air = append(air, part)
					}
				}
			case "deliver":
				if len(air) > 0 {
					deliver(rapid.SampledFrom(air).Draw(t, "message"), who)
				}
			case "exchange":
				to := rapid.IntRange(0, 2).Draw(t, "to")
				for name := range s.pages {
					deliver(s.whole(name, epoch), to)
				}
			case "restart":
				speakers[who] = newSpeaker(s.self, s.own().incarnation+1)
				clear(highest[who])
			}
		}
		for range 2 {
			for _, from := range speakers {
				for to := range speakers {
					for name := range from.pages {
						deliver(from.whole(name, epoch), to)
					}
				}
			}
		}
		for _, s := range speakers {
			s.expire(epoch.Add(inheritance + 1))
			if diff := cmp.Diff(speakers[0].all(), s.all(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Fatalf("%s disagrees: %s", s.self, diff)
			}
		}
	})
}
