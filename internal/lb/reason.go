package lb

import (
	"fmt"
	"net/netip"
	"strings"

	"fairlead.io/internal/prose"
)

// Code is the name of a reason: the reason of the condition and of the event,
// and the label of the metric.
type Code string

// Reason is one message to users: a code of a Table, and a full sentence that says
// what happened to which object, why, and what to do.
type Reason struct {
	Code Code
	Text string

	facts facts
}

// facts are what of About a Reason knows by itself.
type facts struct{ ready, warning, eventOnly bool }

// Ready says whether an object with this reason works as it asks to.
func (r Reason) Ready() bool { return r.facts.ready }

// Warning says whether the reason's event is a warning.
func (r Reason) Warning() bool { return r.facts.warning }

// EventOnly says whether the reason is only reported by events, or by the condition
// about announcing, never by the condition about addresses.
func (r Reason) EventOnly() bool { return r.facts.eventOnly }

// Equal says whether two reasons tell the same, be one of them read from an object.
func (r Reason) Equal(o Reason) bool { return r.Code == o.Code && r.Text == o.Text }

func (r Reason) String() string { return string(r.Code) + ": " + r.Text }

// Rebuilt is a reason as it is read from an object. It is known to be a warning only
// if its code is of Common.
func Rebuilt(c Code, text string, ready bool) Reason {
	about := Common[c]
	return Reason{Code: c, Text: text, facts: facts{ready, about.Warning, about.Event}}
}

// Rebuilt is a reason of the table as it is read from an object.
func (t Table) Rebuilt(c Code, text string) Reason {
	return Reason{Code: c, Text: text, facts: t[c].facts()}
}

// About says what a code means, for the code and for the reference page that is
// generated from it.
type About struct {
	On      string // the kind the reason is seen on
	Ready   bool   // the condition is True
	Warning bool   // the event is a warning
	Event   bool   // only reported by events, or by the condition about announcing
	Means   string // one sentence for the reference
	Do      string // what the reader can do about it
	Text    string // format of Reason.Text
	Sample  []any  // arguments of the example in the reference
}

// Example returns the sentence as a user may see it.
func (a About) Example() string { return fmt.Sprintf(a.Text, a.Sample...) }

func (a About) facts() facts { return facts{a.Ready, a.Warning, a.Event} }

// Table has the reasons of one part of Fairlead. Common is that of the core; each
// backend and each configuration format has its own beside its code. The program
// merges them into one list of everything that Fairlead can report.
type Table map[Code]About

// With returns the reason of code c with args for the blanks in its text.
func (t Table) With(c Code, args ...any) Reason {
	about := t[c]
	return Reason{Code: c, Text: cut(fmt.Sprintf(about.Text, args...)), facts: about.facts()}
}

// Say is With for texts whose blanks are all %s and args that are text already.
// It does without fmt, because every allocation says Ready.
func (t Table) Say(c Code, args ...string) Reason {
	about := t[c]
	var b strings.Builder
	rest := about.Text
	size := len(rest)
	for _, a := range args {
		size += len(a)
	}
	b.Grow(size)
	for _, a := range args {
		before, after, _ := strings.Cut(rest, "%s")
		b.WriteString(before)
		b.WriteString(a)
		rest = after
	}
	b.WriteString(rest)
	return Reason{Code: c, Text: cut(b.String()), facts: about.facts()}
}

// Merge returns all reasons of the tables. It is an error if two tables have the
// same code, because its meaning would be ambiguous.
func Merge(tables ...Table) (Table, error) {
	all := Table{}
	for _, t := range tables {
		for code, about := range t {
			if _, twice := all[code]; twice {
				return nil, fmt.Errorf("merge reasons: %s is in two tables", code)
			}
			all[code] = about
		}
	}
	return all, nil
}

// Common has the reasons of this package. Each part of it is in a file of its own,
// beside the names of its codes.
var Common = must(Merge(serviceReasons, announcedReasons, cloudReasons, agentReasons, poolReasons, routeReasons))

func must(t Table, err error) Table {
	if err != nil {
		panic(err)
	}
	return t
}

// With is Common.With.
func (c Code) With(args ...any) Reason { return Common.With(c, args...) }

// Say is Common.Say.
func (c Code) Say(args ...string) Reason { return Common.Say(c, args...) }

// maxText is how long a text may be: what somebody wrote into an annotation or a
// pool is in it, and the API server refuses conditions that are too long.
const maxText = 4096

func cut(text string) string { return prose.Cut(text, maxText) }

// Gist is what was put into the blank of a text of Common that has one.
func (r Reason) Gist() string {
	before, after, _ := strings.Cut(Common[r.Code].Text, "%s")
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, before), after)
}

// keeps begins what Keeping adds.
const keeps = " Until then the Service keeps "

// Keeping adds to r that the Service keeps the addresses that it has until it can
// have what it requests.
func (r Reason) Keeping(addresses []netip.Addr) Reason {
	if len(addresses) > 0 {
		r.Text += keeps + prose.Addrs(addresses) + "."
	}
	return r
}

// And adds the text of o to that of r. The code stays that of r.
func (r Reason) And(o Reason) Reason {
	r.Text = cut(r.Text + " " + o.Text)
	return r
}
