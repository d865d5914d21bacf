package invariant

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	vip   = netip.MustParseAddr("192.0.2.1")
	vip6  = netip.MustParseAddr("2001:db8::1")
)

// at is a moment, in milliseconds after the beginning.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func newChecker() *Checker {
	return New(start, Limits{Silence: time.Second, Questions: 8, Two: 1500 * time.Millisecond, Answering: 300 * time.Millisecond, Quiet: time.Second})
}

// broken says which rules were broken, and how often.
func broken(c *Checker) string {
	var rules []string
	for _, b := range c.Breaches(0) {
		rules = append(rules, b.Rule)
	}
	return strings.Join(rules, ", ")
}

// answering has nodes answer for vip every 100 ms, in turns; none is no answer.
func answering(c *Checker, from, to int, nodes ...string) {
	for ms := from; ms < to; ms += 100 {
		c.Asked(vip, at(ms))
		if len(nodes) > 0 {
			c.Answered(vip, nodes[ms/100%len(nodes)], at(ms+1))
		}
		c.Tick(at(ms + 50))
	}
}

func fault(c *Checker, from, done int, allows Allowance) {
	c.Act(at(from), "a fault", allows)(at(done))
}

// Each rule is broken once by what breaks it, and not by what is just good enough.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*Checker)
		want    string
	}{
		"one": {func(c *Checker) { answering(c, 0, 9000, "a") }, ""},
		"a hand-over": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			fault(c, 3000, 3000, Allowance{Move: time.Second})
			answering(c, 3000, 4200, "a", "b")
			answering(c, 4200, 9000, "b")
		}, ""},
		"a hand-over without a reason": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			answering(c, 3000, 4200, "a", "b")
			answering(c, 4200, 9000, "b")
		}, Moved},
		"two for too long": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			answering(c, 3000, 6000, "a", "b")
			answering(c, 6000, 9000, "b")
		}, TwoAnswer + ", " + Moved},
		"two again": {func(c *Checker) {
			answering(c, 0, 3000, "a", "b")
			answering(c, 3000, 6000, "b")
			answering(c, 6000, 9000, "a", "b")
		}, TwoAnswer + ", " + Moved + ", " + TwoAnswer},
		"two, explained": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			fault(c, 3000, 3000, Allowance{Two: 2 * time.Second})
			answering(c, 3000, 6000, "a", "b")
		}, ""},
		"two, explained for a while": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			fault(c, 3000, 3000, Allowance{Two: 2 * time.Second})
			answering(c, 3000, 7000, "a", "b")
		}, TwoAnswer},
		"two, explained by something else": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			fault(c, 3000, 3000, Allowance{Silence: 9 * time.Second, Move: 9 * time.Second, Status: 9 * time.Second})
			answering(c, 3000, 6000, "a", "b")
		}, TwoAnswer},
		"one after the other": {func(c *Checker) {
			for ms := 0; ms < 9000; ms += 500 {
				answering(c, ms, ms+500, []string{"a", "b"}[ms/500%2])
			}
		}, Moved},
		"one after the other, explained": {func(c *Checker) {
			fault(c, 0, 5000, Allowance{Move: 5 * time.Second})
			for ms := 0; ms < 9000; ms += 500 {
				answering(c, ms, ms+500, []string{"a", "b"}[ms/500%2])
			}
		}, ""},
		"a short silence":       {func(c *Checker) { answering(c, 0, 3000, "a"); answering(c, 3000, 3900); answering(c, 3900, 9000, "a") }, ""},
		"a silence":             {func(c *Checker) { answering(c, 0, 3000, "a"); answering(c, 3000, 4500); answering(c, 4500, 9000, "a") }, NoneAnswer},
		"a silence for ever":    {func(c *Checker) { answering(c, 0, 3000, "a"); answering(c, 3000, 9000) }, NoneAnswer},
		"silent from the start": {func(c *Checker) { answering(c, 0, 9000) }, NoneAnswer},
		"a silence, explained": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			fault(c, 3000, 4000, Allowance{Silence: 2 * time.Second, Move: 5 * time.Second})
			answering(c, 3000, 6500)
			answering(c, 6500, 9000, "b")
		}, ""},
		"a silence, explained too late": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			answering(c, 3000, 4500)
			fault(c, 4500, 4500, Allowance{Silence: 2 * time.Second, Move: time.Second})
			answering(c, 4500, 9000, "b")
		}, NoneAnswer},
		"a fault that is not over": {func(c *Checker) {
			answering(c, 0, 3000, "a")
			c.Act(at(3000), "a fault", Allowance{Silence: 1})
			answering(c, 3000, 9000)
		}, ""},
		"nobody asks": {func(c *Checker) { answering(c, 0, 3000, "a"); c.Tick(at(8000)); answering(c, 8000, 9000, "a") }, ""},
	} {
		c := newChecker()
		if test.happens(c); broken(c) != test.want {
			t.Errorf("%s: broken is %q, want %q", name, broken(c), test.want)
		}
	}
}

// Who answered alone for a while is the owner; a move is counted once, and is a breach if no
// fault explains it.
func TestMoves(t *testing.T) {
	c := newChecker()
	answering(c, 0, 2000, "a")
	if owner, alone := c.Owner(vip, at(1500)); owner != "a" || !alone {
		t.Errorf("the owner is %q, alone: %t", owner, alone)
	}
	fault(c, 2000, 2000, Allowance{Move: 5 * time.Second})
	answering(c, 2000, 2500, "a", "b")
	if owner, alone := c.Owner(vip, at(2000)); alone {
		t.Errorf("%s is alone", owner)
	}
	answering(c, 2500, 5000, "b")
	if owner, alone := c.Owner(vip, at(4500)); owner != "b" || !alone {
		t.Errorf("the owner is %q, alone: %t", owner, alone)
	}
	if _, alone := c.Owner(vip, at(9000)); alone {
		t.Error("an answer of long ago counts")
	}
	if n := c.Counts(); n.Moves != 1 || broken(c) != "" {
		t.Errorf("%d moves, broken is %q", n.Moves, broken(c))
	}
	answering(c, 9000, 9500, "b")
	answering(c, 9500, 12000, "a")
	if n := c.Counts(); n.Moves != 2 || broken(c) != Moved {
		t.Errorf("%d moves, broken is %q", n.Moves, broken(c))
	}
	if w := c.TakeWorst(); w.Two < 300*time.Millisecond || w.Two > 900*time.Millisecond {
		t.Errorf("two answered for %s", w.Two)
	}
}

// A connection that failed with none made before or after it tells of no outage.
func TestNoOutage(t *testing.T) {
	timeout := errors.New("timeout")
	c := newChecker()
	fault(c, 0, 9000, Allowance{Silence: 9 * time.Second})
	if c.Working(vip, at(0)) {
		t.Error("it works before any connection was made")
	}
	c.Connected(vip, at(1000), at(4000), timeout)
	c.Connected(vip, at(900), at(4000), nil)
	if c.Working(vip, at(0)) {
		t.Error("it works, but the last connection failed")
	}
	c.Connected(vip6, at(1000), at(2000), timeout)
	c.Connected(vip6, at(1500), at(1600), nil)
	c.Connected(vip6, at(1200), at(2200), timeout)
	if w := c.TakeWorst(); w.Outage != 0 {
		t.Errorf("an outage of %s", w.Outage)
	}
	c.Connected(vip, at(1100), at(1200), nil)
	if w := c.TakeWorst(); w.Outage != 200*time.Millisecond || !c.Working(vip, at(0)) {
		t.Errorf("an outage of %s", w.Outage)
	}
}

func TestHolders(t *testing.T) {
	one, both := Service{Addresses: []netip.Addr{vip}}, Service{Addresses: []netip.Addr{vip, vip6}}
	shared := func(key string) Service { return Service{Addresses: []netip.Addr{vip}, Share: key} }
	for name, test := range map[string]struct {
		happens func(*Checker)
		want    string
	}{
		"one":                 {func(c *Checker) { c.Holds(at(0), "x", both); c.Holds(at(1), "x", both) }, ""},
		"two":                 {func(c *Checker) { c.Holds(at(0), "x", both); c.Holds(at(1), "y", one) }, TwoHold},
		"three":               {func(c *Checker) { c.Holds(at(0), "x", both); c.Holds(at(1), "y", one); c.Holds(at(2), "z", one) }, TwoHold},
		"one after the other": {func(c *Checker) { c.Holds(at(0), "x", both); c.Holds(at(1), "x", Service{}); c.Holds(at(2), "y", one) }, ""},
		"shared":              {func(c *Checker) { c.Holds(at(0), "x", shared("k")); c.Holds(at(1), "y", shared("k")) }, ""},
		"shared, other keys":  {func(c *Checker) { c.Holds(at(0), "x", shared("k")); c.Holds(at(1), "y", shared("l")) }, TwoHold},
		"no longer shared": {func(c *Checker) {
			c.Holds(at(0), "x", shared("k"))
			c.Holds(at(1), "y", shared("k"))
			c.Holds(at(2), "y", one)
		}, TwoHold},
		"written by a rival, and resolved": {func(c *Checker) {
			fault(c, 0, 0, Allowance{Status: time.Second})
			c.Holds(at(1), "x", both)
			c.Holds(at(2), "y", one)
			c.Holds(at(900), "y", Service{})
			c.Tick(at(2000))
		}, ""},
		"written by a rival, and left": {func(c *Checker) {
			fault(c, 0, 0, Allowance{Status: time.Second})
			c.Holds(at(1), "x", both)
			c.Holds(at(2), "y", one)
			c.Tick(at(900))
			c.Tick(at(1100))
			c.Tick(at(1200))
		}, TwoHold},
		"as it must": {func(c *Checker) { c.Holds(at(0), "x", both); c.Due("x", vip, vip6); c.Holds(at(1), "y", Service{}) }, ""},
		"lost":       {func(c *Checker) { c.Holds(at(0), "x", both); c.Due("x", vip, vip6); c.Holds(at(1), "x", Service{}) }, Lost},
		"lost one":   {func(c *Checker) { c.Holds(at(0), "x", both); c.Due("x", vip, vip6); c.Holds(at(1), "x", one) }, Lost},
		"lost and found, lost again": {func(c *Checker) {
			c.Holds(at(0), "x", one)
			c.Due("x", vip)
			c.Holds(at(1), "x", Service{})
			c.Holds(at(2), "x", one)
			c.Holds(at(3), "x", Service{})
		}, Lost + ", " + Lost},
		"wiped by a rival, and restored": {func(c *Checker) {
			c.Holds(at(0), "x", one)
			c.Due("x", vip)
			fault(c, 1, 1, Allowance{Status: time.Second})
			c.Holds(at(2), "x", Service{})
			c.Holds(at(900), "x", one)
			c.Tick(at(2000))
		}, ""},
		"wiped by a rival, and not restored": {func(c *Checker) {
			c.Holds(at(0), "x", one)
			c.Due("x", vip)
			fault(c, 1, 1, Allowance{Status: time.Second})
			c.Holds(at(2), "x", Service{})
			c.Tick(at(2000))
			c.Tick(at(3000))
		}, Lost},
		"deleted": {func(c *Checker) {
			c.Holds(at(0), "x", one)
			c.Due("x", vip)
			c.Due("x")
			c.Holds(at(1), "x", Service{})
		}, ""},
	} {
		c := newChecker()
		if test.happens(c); broken(c) != test.want {
			t.Errorf("%s: broken is %q, want %q", name, broken(c), test.want)
		}
		if complete := c.Complete() == nil; complete != (test.want == "") {
			t.Errorf("%s: complete: %t", name, complete)
		}
	}
}

func TestGrowth(t *testing.T) {
	limit := Growth{Share: 0.2, Slack: 5}
	for name, test := range map[string]struct {
		values []float64
		grown  bool
	}{
		"too few":      {[]float64{1, 100, 200, 300, 400}, false},
		"the same":     {[]float64{100, 100, 100, 100, 100, 100}, false},
		"up and down":  {[]float64{100, 180, 100, 190, 100, 185, 100, 190, 100}, false},
		"a little":     {[]float64{100, 100, 110, 110, 125, 125}, false},
		"more":         {[]float64{100, 100, 110, 110, 126, 126}, true},
		"from nothing": {[]float64{0, 0, 0, 0, 6, 6}, true},
		"a leak":       {[]float64{50, 60, 70, 80, 90, 100, 110, 120, 130}, true},
		"an outlier":   {[]float64{100, 100, 100, 100, 100, 100, 100, 100, 900}, false},
		"less":         {[]float64{100, 90, 80, 70, 60, 50}, false},
	} {
		c := newChecker()
		for _, v := range test.values {
			c.Measured("it", v)
		}
		trends := c.Trends(at(0), func(string) Growth { return limit })
		if grown := broken(c) == Grows; grown != test.grown || broken(c) != "" && broken(c) != Grows {
			t.Errorf("%s: grown: %t, broken: %q (%+v)", name, grown, broken(c), trends)
		}
		if len(trends) != min(1, len(test.values)/enough) {
			t.Errorf("%s: %d trends", name, len(trends))
		}
	}
}

// What no window explains is counted to the millisecond.
func TestUncovered(t *testing.T) {
	window := func(from, done, after int) func(*Checker) {
		return func(c *Checker) { fault(c, from, done, Allowance{Silence: time.Duration(after) * time.Millisecond}) }
	}
	going := func(from int) func(*Checker) {
		return func(c *Checker) { c.Act(at(from), "a fault", Allowance{Silence: 1}) }
	}
	for name, test := range map[string]struct {
		windows []func(*Checker)
		want    int // of 1000 to 2000
	}{
		"none":               {nil, 1000},
		"all":                {[]func(*Checker){window(500, 900, 1200)}, 0},
		"exactly":            {[]func(*Checker){window(1000, 1000, 1000)}, 0},
		"the beginning":      {[]func(*Checker){window(500, 900, 300)}, 800},
		"the middle":         {[]func(*Checker){window(1200, 1300, 100)}, 800},
		"the end":            {[]func(*Checker){window(1700, 1800, 900)}, 700},
		"before":             {[]func(*Checker){window(0, 500, 500)}, 1000},
		"after":              {[]func(*Checker){window(2000, 2100, 500)}, 1000},
		"two":                {[]func(*Checker){window(1600, 1600, 100), window(1200, 1200, 100)}, 800},
		"two that overlap":   {[]func(*Checker){window(1200, 1200, 200), window(1300, 1300, 200)}, 700},
		"one in the other":   {[]func(*Checker){window(1200, 1200, 500), window(1300, 1300, 100)}, 500},
		"one that goes on":   {[]func(*Checker){going(1400)}, 400},
		"of nothing":         {[]func(*Checker){window(1000, 1900, 0)}, 1000},
		"one, then going on": {[]func(*Checker){window(1000, 1000, 100), going(1900)}, 800},
	} {
		c := newChecker()
		for _, w := range test.windows {
			w(c)
		}
		if got := c.uncovered(silence, at(1000), at(2000)); got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("%s: %s, want %d ms", name, got, test.want)
		}
	}
}

// Limits are the most that is good.
func TestLimits(t *testing.T) {
	// silenceOf asks so often, the last time so late, and then has an answer.
	silenceOf := func(questions, ms int) string {
		c := newChecker()
		c.Asked(vip, at(0))
		for range questions - 2 {
			c.Asked(vip, at(1))
		}
		c.Asked(vip, at(ms-1))
		c.Answered(vip, "a", at(ms))
		return broken(c)
	}
	for name, test := range map[string]struct{ got, want string }{
		"a second":          {silenceOf(20, 1000), ""},
		"a little more":     {silenceOf(20, 1001), NoneAnswer},
		"eight questions":   {silenceOf(8, 5000), NoneAnswer},
		"too few questions": {silenceOf(7, 5000), ""},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q", name, test.got)
		}
	}
	twoFor := func(ms, pause int) string {
		c := newChecker()
		for now := 0; now <= ms; now += pause {
			c.Answered(vip, []string{"a", "b"}[now/pause%2], at(now))
		}
		return broken(c)
	}
	// The first answer of the second node is where it begins.
	for name, test := range map[string]struct{ got, want string }{
		"as long as allowed": {twoFor(1600, 100), ""},
		"longer":             {twoFor(1700, 100), TwoAnswer},
		"slowly":             {twoFor(3000, 299), TwoAnswer},
		"too slowly":         {twoFor(6000, 300), ""},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q", name, test.got)
		}
	}
}

// What was explained and is left becomes a breach when the window ends, not before.
func TestOverdue(t *testing.T) {
	for rule, happens := range map[string]func(*Checker){
		TwoHold: func(c *Checker) {
			c.Holds(at(1), "x", Service{Addresses: []netip.Addr{vip}})
			c.Holds(at(2), "y", Service{Addresses: []netip.Addr{vip}})
		},
		Lost: func(c *Checker) {
			c.Due("x", vip)
			c.Holds(at(1), "x", Service{Addresses: []netip.Addr{vip6}})
		},
	} {
		c := newChecker()
		fault(c, 0, 0, Allowance{Status: time.Second})
		happens(c)
		for ms := 100; ms <= 1000; ms += 100 {
			if c.Tick(at(ms)); broken(c) != "" {
				t.Fatalf("%s at %d ms", rule, ms)
			}
		}
		for ms := 1001; ms < 1100; ms++ {
			c.Tick(at(ms))
		}
		if got := c.Breaches(0); broken(c) != rule || !got[0].At.Equal(at(1001)) {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

// What was seen is told in the words of an operator, once.
func TestJournal(t *testing.T) {
	c := newChecker()
	answering(c, 0, 1000, "a")
	answering(c, 1000, 1400, "a", "b")
	answering(c, 1400, 3000, "b")
	answering(c, 3000, 4500)
	answering(c, 4500, 4700, "b")
	c.Holds(at(5000), "x", Service{Addresses: []netip.Addr{vip}})
	c.Holds(at(5001), "x", Service{Addresses: []netip.Addr{vip}})
	c.Holds(at(5002), "x", Service{Addresses: []netip.Addr{vip}, Share: "k"})
	c.Holds(at(5003), "x", Service{Share: "k"})
	c.Holds(at(5004), "x", Service{})
	want := []string{
		"    0.00s 192.0.2.1 is answered for by a",
		"    1.10s 192.0.2.1 is answered for by b, until now by a",
		"    2.25s BREACH: an address moved without a reason: 192.0.2.1 has moved from a to b",
		"    4.05s BREACH: nobody answers for an address: 192.0.2.1: for 1.05s, of which 1.05s are not explained (11 questions); the last was b",
		"    4.50s 192.0.2.1 is answered for again, by b, after 1.501s",
		"    5.00s x has [192.0.2.1], had []",
		"    5.00s x has [], had [192.0.2.1]",
	}
	if got := c.before(); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := c.Counts().ServiceChanges; n != 2 {
		t.Errorf("%d changes", n)
	}
	if w := c.TakeWorst(); w.Silence != 1501*time.Millisecond {
		t.Errorf("the worst silence was %s", w.Silence)
	}
	answering(c, 5000, 6000, "b")
	if w := c.TakeWorst(); w.Silence != 0 {
		t.Errorf("a question that was answered is a silence of %s", w.Silence)
	}
}

// A breach says who answered lately.
func TestAnswerers(t *testing.T) {
	c := newChecker()
	c.Answered(vip, "long ago", at(0))
	fault(c, 5900, 5900, Allowance{Move: time.Second})
	answering(c, 6000, 8000, "a", "b")
	if got := c.Breaches(0); len(got) != 1 || got[0].Text != "192.0.2.1: for 1.6s: a 100ms ago b 0s ago" && got[0].Text != "192.0.2.1: for 1.6s: a 0s ago b 100ms ago" {
		t.Errorf("%+v", got)
	}
}

// A breach has what happened before it, the last of it last.
func TestBreachTellsWhatHappened(t *testing.T) {
	c := newChecker()
	fault(c, 0, 0, Allowance{})
	fault(c, 1, 1, Allowance{})
	for i := range 200 {
		c.Note(at(i*1000), fmt.Sprintf("event %d", i))
	}
	fault(c, 200000, 203000, Allowance{})
	c.Broken(at(204000), Other, "it broke")
	got := c.Breaches(0)
	if len(got) != 1 || got[0].Rule != Other || got[0].Text != "it broke" || len(got[0].Before) != remembered+2 {
		t.Fatalf("%+v", got)
	}
	if before := got[0].Before; before[0] != "    0.00s a fault" || before[1] != before[0] || before[2] != "  177.00s event 177" {
		t.Errorf("what was done before: %q", before[:3])
	}
	last := got[0].Before[remembered-1:]
	want := []string{"  199.00s event 199", "  200.00s a fault", "  203.00s a fault: done after 3s"}
	if !slices.Equal(last, want) {
		t.Errorf("the last was %q, want %q", last, want)
	}
	if len(c.Breaches(1)) != 0 {
		t.Error("there is more than one breach")
	}
}

// Acts of long ago are forgotten, but not while they explain something.
func TestForget(t *testing.T) {
	c := newChecker()
	fault(c, 0, 0, Allowance{Silence: time.Second})
	c.Act(at(0), "goes on", Allowance{Silence: time.Second})
	c.Tick(at(60_000))
	if len(c.acts) != 2 {
		t.Errorf("%d acts are left", len(c.acts))
	}
	c.Tick(at(62_000))
	if len(c.acts) != 1 || c.acts[0].name != "goes on" {
		t.Errorf("%d acts are left", len(c.acts))
	}
}
