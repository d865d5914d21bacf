package invariant

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Rules that can be broken.
const (
	TwoAnswer  = "two nodes answer for one address"
	NoneAnswer = "nobody answers for an address"
	Refused    = "a new connection failed"
	Moved      = "an address moved without a reason"
	TwoHold    = "two Services have one address"
	Lost       = "a Service has lost its address"
	Grows      = "something grows"
	Other      = "something else went wrong"
)

// Rules in the order of the report.
var Rules = []string{TwoAnswer, NoneAnswer, Refused, Moved, TwoHold, Lost, Grows, Other}

// Limits of what needs no window.
type Limits struct {
	// Silence is how long nobody may answer for an address.
	Silence time.Duration
	// Questions is how many questions in a row must be without an answer, too: time in
	// which nothing was asked says nothing.
	Questions int
	// Two is how long two nodes may answer for one address: a former owner does until
	// its fence has run out.
	Two time.Duration
	// Answering is how long after an answer a node still counts as one that answers: some
	// questions.
	Answering time.Duration
	// Quiet is how long only one node must have answered before it counts as the owner.
	Quiet time.Duration
}

// Allowance is what a fault explains, and for how long after it.
type Allowance struct {
	Silence time.Duration // nobody answers for an address, and new connections fail
	Two     time.Duration // two nodes answer for an address
	Move    time.Duration // an address moves, which resets connections that are under way
	Status  time.Duration // a Service lacks its address, or has another one's
	// Planned: nodes hand addresses over when they move. Connections that are under way are
	// late at most.
	Planned bool
}

// Breach of a rule.
type Breach struct {
	At     time.Time
	Rule   string
	Text   string
	Before []string // what happened before it, with times
}

// remembered is how many lines of what happened a breach has, and how many more of what
// was done before these.
const remembered, rememberedActs = 25, 8

// Checker finds breaches. All its methods may be called at the same time.
type Checker struct {
	limits Limits

	mu        sync.Mutex
	began     time.Time
	journal   []line
	done      []line // of the journal, what was done to the cluster
	acts      []*act
	breaches  []Breach
	addresses map[netip.Addr]*address
	holders   map[netip.Addr]map[string]Service
	has       map[string]Service
	due       map[string][]netip.Addr // what Services must have
	doubles   map[netip.Addr]time.Time
	missing   map[string]time.Time
	series    map[string][]float64
	excused   []excuse
	counts    Counts
	worst     Worst
}

// Counts of what was seen.
type Counts struct {
	Questions, Answers, Moves int
	Made, Failed, Reset, Late int // connections; those that are not made are explained
	ServiceChanges            int
}

// Worst is the longest time of each that was seen.
type Worst struct {
	Silence time.Duration // nobody answered
	Two     time.Duration // two answered
	Outage  time.Duration // between two connections that were made, with one between that failed
}

// line of the journal.
type line struct {
	at   time.Time
	text string
}

// New returns a checker of something that begins.
func New(began time.Time, l Limits) *Checker {
	return &Checker{limits: l, began: began, addresses: map[netip.Addr]*address{}, holders: map[netip.Addr]map[string]Service{}, has: map[string]Service{},
		due: map[string][]netip.Addr{}, doubles: map[netip.Addr]time.Time{}, missing: map[string]time.Time{}, series: map[string][]float64{}}
}

// act is something that is done to the cluster, and what it explains.
type act struct {
	name       string
	from, done time.Time // done is zero while it goes on
	allows     Allowance
	moments    map[netip.Addr]time.Time // of a move that connections have noticed
}

// kind picks one of the durations of an allowance.
type kind func(Allowance) time.Duration

var (
	silence kind = func(a Allowance) time.Duration { return a.Silence }
	two     kind = func(a Allowance) time.Duration { return a.Two }
	move    kind = func(a Allowance) time.Duration { return a.Move }
	status  kind = func(a Allowance) time.Duration { return a.Status }
)

// window returns from when to when an act explains something; ok says whether it does.
func (a *act) window(of kind, now time.Time) (from, to time.Time, ok bool) {
	if of(a.allows) <= 0 {
		return from, to, false
	}
	if a.done.IsZero() {
		return a.from, now, true
	}
	return a.from, a.done.Add(of(a.allows)), true
}

// Act begins something that is done to the cluster. What it allows begins now, and lasts
// for the given times after done was called.
func (c *Checker) Act(at time.Time, name string, allows Allowance) (done func(time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &act{name: name, from: at, allows: allows, moments: map[netip.Addr]time.Time{}}
	c.acts = append(c.acts, a)
	c.note(at, name)
	c.done = latest(append(c.done, line{at, name}), rememberedActs)
	return func(at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.done = at
		if took := at.Sub(a.from); took > time.Second {
			c.note(at, fmt.Sprintf("%s: done after %s", name, took.Round(time.Millisecond)))
		}
	}
}

// Note writes something down that a breach may have to do with.
func (c *Checker) Note(at time.Time, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(at, text)
}

func (c *Checker) note(at time.Time, text string) {
	c.journal = latest(append(c.journal, line{at, text}), remembered)
}

// latest drops all but the last n, now and then.
func latest(lines []line, n int) []line {
	if len(lines) > 4*n {
		return slices.Clone(lines[len(lines)-n:])
	}
	return lines
}

// before is what happened until now: what was done, then everything.
func (c *Checker) before() (out []string) {
	last := c.journal[max(0, len(c.journal)-remembered):]
	for _, l := range c.done[max(0, len(c.done)-rememberedActs):] {
		if len(last) > 0 && l.at.Before(last[0].at) {
			out = append(out, c.text(l))
		}
	}
	for _, l := range last {
		out = append(out, c.text(l))
	}
	return out
}

func (c *Checker) text(l line) string {
	return fmt.Sprintf("%8.2fs %s", l.at.Sub(c.began).Seconds(), l.text)
}

// Broken notes a breach that somebody else has found.
func (c *Checker) Broken(at time.Time, rule, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken(at, rule, text)
}

func (c *Checker) broken(at time.Time, rule, text string) {
	before := c.before()
	c.note(at, "BREACH: "+rule+": "+text)
	c.breaches = append(c.breaches, Breach{At: at, Rule: rule, Text: text, Before: before})
}

// Breaches returns those from the n-th on.
func (c *Checker) Breaches(n int) []Breach {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.breaches[n:])
}

// Counts returns what was seen so far.
func (c *Checker) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// TakeWorst returns the longest times since it was called last.
func (c *Checker) TakeWorst() Worst {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.worst
	c.worst = Worst{}
	return out
}

// uncovered is how much of the time between two moments no window explains.
func (c *Checker) uncovered(of kind, from, to time.Time) (rest time.Duration) {
	type span struct{ from, to time.Time }
	var covered []span
	for _, a := range c.acts {
		if f, t, ok := a.window(of, to); ok && f.Before(to) && t.After(from) {
			covered = append(covered, span{f, t})
		}
	}
	slices.SortFunc(covered, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range covered {
		if s.from.After(from) {
			rest += s.from.Sub(from)
		}
		if s.to.After(from) {
			from = s.to
		}
		if !from.Before(to) {
			return rest
		}
	}
	return rest + to.Sub(from)
}

// Tick finds what shows only with time. Call it several times a second.
func (c *Checker) Tick(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr, a := range c.addresses {
		c.settle(addr, a, now)
		c.silent(addr, a, now)
	}
	c.overdue(now)
	c.excuse(now)
	c.forget(now)
}

// forget drops acts that explain nothing any more.
func (c *Checker) forget(now time.Time) {
	c.acts = slices.DeleteFunc(c.acts, func(a *act) bool {
		if a.done.IsZero() {
			return false
		}
		longest := max(a.allows.Silence, a.allows.Two, a.allows.Move, a.allows.Status)
		return now.Sub(a.done) > longest+time.Minute
	})
}
