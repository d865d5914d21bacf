package lb

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Code is the name of a reason: the reason of the condition and of the event,
// and the label of the metric.
type Code string

// Reason is one thing that is told to a user: a code of the closed list below
// and a full sentence with what, which, why and what to do.
type Reason struct {
	Code Code
	Text string
}

// Ready says whether an object with this reason works as it asks to.
func (r Reason) Ready() bool { return Reasons[r.Code].Ready }

// Warning says whether the reason's event is a warning.
func (r Reason) Warning() bool { return Reasons[r.Code].Warning }

func (r Reason) String() string { return string(r.Code) + ": " + r.Text }

// About says what a code means, for the code and for the reference page that is
// generated from it.
type About struct {
	On      string // the kind the reason is seen on
	Ready   bool   // the condition is True
	Warning bool   // the event is a warning
	Event   bool   // told by an event alone, never by a condition
	MetalLB string // the event's reason where it is told in MetalLB's words
	Cloud   string // the event's reason where it is told in the words of cloud controllers
	Means   string // one sentence for the reference
	Do      string // what the reader can do about it
	text    string // format of Reason.Text
	sample  []any  // arguments of the example in the reference
}

// Example returns the sentence as a user may see it.
func (a About) Example() string { return fmt.Sprintf(a.text, a.sample...) }

// With returns the reason of this code with args for the blanks in its text.
func (c Code) With(args ...any) Reason {
	return Reason{Code: c, Text: cut(fmt.Sprintf(Reasons[c].text, args...))}
}

// textMost is how long a text may be: what somebody wrote into an annotation or
// a pool is in it, and the API server refuses conditions that are too long.
const textMost = 4096

func cut(text string) string {
	if len(text) <= textMost {
		return text
	}
	end := textMost
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Say is With for texts whose blanks are all %s and args that are text already.
// It does without fmt, because every allocation says Ready.
func (c Code) Say(args ...string) Reason {
	var b strings.Builder
	rest := Reasons[c].text
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
	return Reason{Code: c, Text: cut(b.String())}
}

// Gist is what was put into the blank of a text that has one.
func (r Reason) Gist() string {
	before, after, _ := strings.Cut(Reasons[r.Code].text, "%s")
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, before), after)
}

// Keeping adds to r that the Service keeps the addresses it has until what it
// asks for can be had.
func (r Reason) Keeping(addresses []netip.Addr) Reason {
	if len(addresses) > 0 {
		r.Text += " Until then the Service keeps " + ListAddrs(addresses) + "."
	}
	return r
}

// And adds to r what o says, too. The code stays that of r.
func (r Reason) And(o Reason) Reason {
	r.Text = cut(r.Text + " " + o.Text)
	return r
}

// ListAddrs writes addresses as they are read in a sentence.
func ListAddrs(addresses []netip.Addr) string {
	if len(addresses) == 1 {
		return addresses[0].String()
	}
	var b strings.Builder
	for i, a := range addresses {
		switch {
		case i > 0 && i == len(addresses)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(a.String())
	}
	return b.String()
}

// Reasons is the closed list of everything that can be told to a user. Each part
// of it is in a file of its own, beside the names of its codes.
var Reasons = together(serviceReasons, cloudReasons, agentReasons, nodeReasons, poolReasons, metallbReasons, configMapReasons)

func together(parts ...map[Code]About) map[Code]About {
	all := map[Code]About{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}
