package member

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// follower keeps claims as changes tells of them.
type follower struct{ claims map[Key][]Claim }

func (f *follower) follow(b *book) {
	turned, claims := b.changes()
	if turned {
		f.claims = b.all()
	}
	for key, all := range claims {
		if f.claims[key] = all; len(all) == 0 {
			delete(f.claims, key)
		}
	}
}

// Whatever happens, one who only hears of changes knows what one does who reads all.
func TestChangesLeadToAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addresses := []netip.Addr{vip, vip2, vip6}
		speakers := []*speaker{newSpeaker("a", 100), newSpeaker("b", 100)}
		reader := newBook("r", 100, ready)
		reader.claim(nil)
		var f follower
		now, count := epoch, uint64(0)
		var air []report
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			who := rapid.IntRange(0, 1).Draw(t, "who")
			s := speakers[who]
			claim := up(rapid.SampledFrom(addresses).Draw(t, "address"), count)
			switch rapid.SampledFrom([]string{"say", "release", "own", "drop own", "deliver", "deliver", "exchange", "restart", "die", "return", "wait"}).Draw(t, "what") {
			case "say":
				count++
				s.say(claim)
			case "release":
				s.say()
			case "own":
				count++
				reader.reclaim([]Claim{claim}, nil)
			case "drop own":
				reader.reclaim(nil, []Key{claim.Key})
			case "deliver":
				if air = append(air, s.said...); len(air) > 0 {
					reader.merge(rapid.SampledFrom(air).Draw(t, "message"), rapid.Bool().Draw(t, "member"), now)
				}
			case "exchange":
				reader.merge(s.whole(s.self, now), true, now)
			case "restart":
				speakers[who] = newSpeaker(s.self, s.own().incarnation+1)
			case "die":
				reader.orphan(s.self, now)
			case "return":
				reader.adopt(s.self)
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, int(2*memory)).Draw(t, "for")))
				reader.expire(now)
			}
			if rapid.Bool().Draw(t, "follows") {
				f.follow(reader)
			}
		}
		f.follow(reader)
		if diff := cmp.Diff(reader.all(), f.claims, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Claims that come and go are no reason to look at anything else.
func TestChangesOfClaimsOnly(t *testing.T) {
	a, b := newSpeaker("a", 100), newBook("b", 1, ready)
	b.merge(a.say(up(vip, 1)), true, epoch)
	b.claim(nil)
	if turned, claims := b.changes(); !turned || claims != nil {
		t.Fatalf("a member that was not known: %v, %v", turned, claims)
	}
	for _, step := range []struct {
		name string
		do   func()
		want map[Key][]Claim
	}{
		{"nothing", func() {}, map[Key][]Claim{}},
		{"another claim", func() { b.merge(a.say(up(vip, 1), up(vip2, 2)), true, epoch) },
			map[Key][]Claim{Addr(vip2): {{Key: Addr(vip2), Node: "a", Epoch: 2, Up: true}}}},
		{"our own to the same", func() { b.reclaim([]Claim{up(vip2, 3)}, nil) },
			map[Key][]Claim{Addr(vip2): {{Key: Addr(vip2), Node: "b", Epoch: 3, Up: true}, {Key: Addr(vip2), Node: "a", Epoch: 2, Up: true}}}},
		{"the same again", func() { b.reclaim([]Claim{up(vip2, 3)}, []Key{Addr(vip6)}) }, map[Key][]Claim{}},
		{"both released", func() { b.reclaim(nil, []Key{Addr(vip2)}); b.merge(a.say(up(vip, 1)), true, epoch) },
			map[Key][]Claim{Addr(vip2): nil}},
	} {
		step.do()
		turned, claims := b.changes()
		if diff := cmp.Diff(step.want, claims, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); turned || diff != "" {
			t.Errorf("%s: turned %t\n%s", step.name, turned, diff)
		}
	}
}

// What a process has released is not its predecessor's again when the proof is forgotten.
func TestReleasedIsNotInherited(t *testing.T) {
	b := newBook("b", 1, ready)
	b.merge(newSpeaker("a", 100).say(up(vip, 1)), true, epoch)
	next := newSpeaker("a", 101)
	claimed, released := next.say(up(vip, 2)), next.say()
	next.tell(func(i *info) { i.meta = Meta{} })
	meta, _ := next.unsent()
	var f follower
	for _, r := range []report{meta, released, claimed, released} {
		b.merge(r, true, epoch)
		f.follow(b)
		if diff := cmp.Diff(b.all(), f.claims, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := known(b, vip); got != nil {
		t.Errorf("claimed: %v", got)
	}
}
