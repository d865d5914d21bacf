package lb

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Impact is what a change costs the connections through a Service's load
// balancer. A greater one is worse.
type Impact uint8

// The classes of impact.
const (
	// ImpactNone: neither established nor new connections notice.
	ImpactNone Impact = iota
	// ImpactNewConnections: established connections stay. New ones may fail for a
	// moment, or for good where that is what was asked for: a port was removed, a
	// network is no longer allowed.
	ImpactNewConnections
	// ImpactSeconds: a port does not answer for some seconds.
	ImpactSeconds
	// ImpactMinutes: a port does not answer for a minute or longer.
	ImpactMinutes
	// ImpactRefused: it would require a new load balancer with another address. It
	// is not done.
	ImpactRefused
)

func (i Impact) String() string {
	switch i {
	case ImpactNone:
		return "none"
	case ImpactNewConnections:
		return "new connections"
	case ImpactSeconds:
		return "seconds"
	case ImpactMinutes:
		return "minutes"
	case ImpactRefused:
		return "refused"
	default:
		return fmt.Sprintf("Impact(%d)", uint8(i))
	}
}

// Verb is what a step does.
type Verb string

// What steps do.
const (
	VerbCreate Verb = "create"
	VerbUpdate Verb = "update"
	VerbDelete Verb = "delete"
	VerbAssign Verb = "assign"
	VerbRefuse Verb = "refuse" // nothing: Why says what is not done
)

// Step is one change of one object in a cloud. It is data: what it does is known
// to the backend that made it.
type Step struct {
	Verb Verb
	Kind string // as a person would say it: "listener"
	Name string // as the cloud shows it; empty for kinds without names
	// Part of the Service that the step is for, such as a port. A step that fails
	// ends its part, and what comes after all parts; empty is for the whole.
	Part string

	ID   string // the object's in the cloud; empty if it is to be created
	In   string // the ID of what it belongs to, where the cloud asks for it
	Body any    // what is sent: a value of the backend's client
	// Refs are what earlier steps create and this one needs.
	Refs []Ref

	Changes []Change // what an update changes
	Why     string   // why it is needed, or refused
	Impact  Impact

	// Later is when the step may be done, at the earliest, if not now. It is part
	// of the plan so that one can see where it leads; it is not done, but
	// looked at again after that time.
	Later time.Duration
}

// Ref is the ID of something that does not exist yet.
type Ref struct {
	Field string // where it is needed
	To    string // Key of the earlier step that creates it
}

// Change is one field that an update changes.
type Change struct {
	Field    string
	From, To string
}

func (c Change) String() string { return fmt.Sprintf("%s %s → %s", c.Field, c.From, c.To) }

// Key names the object of a step for references to it.
func (s Step) Key() string { return strings.TrimSpace(s.Kind + " " + s.Name) }

// String is the step as a user reads it: "update listener tcp/80: allowed_cidrs
// [] → [192.0.2.0/24] (new connections)".
func (s Step) String() string { return s.text(s.object()) }

func (s Step) object() string {
	if s.Part == "" || s.Part == s.Name {
		return s.Key()
	}
	return s.Key() + " of " + s.Part
}

func (s Step) text(object string) string {
	var b strings.Builder
	if s.Later > 0 {
		b.WriteString("later ")
	}
	b.WriteString(string(s.Verb) + " " + object)
	details := make([]string, 0, len(s.Changes)+1)
	for _, c := range s.Changes {
		details = append(details, c.String())
	}
	if s.Why != "" {
		details = append(details, s.Why)
	}
	if len(details) > 0 {
		b.WriteString(": " + strings.Join(details, ", "))
	}
	if s.Impact != ImpactNone && s.Impact != ImpactRefused {
		b.WriteString(" (" + s.Impact.String() + ")")
	}
	return b.String()
}

// Plan is what turns what there is into what is wanted, in this order.
type Plan struct{ Steps []Step }

// Empty says that nothing is to be done, now or later.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }

// Impact of the plan is the worst of the steps that are done; a plan that only
// refuses is refused.
func (p Plan) Impact() Impact {
	worst, refused := ImpactNone, len(p.Steps) > 0
	for _, s := range p.Steps {
		if s.Verb != VerbRefuse {
			worst, refused = max(worst, s.Impact), false
		}
	}
	if refused {
		return ImpactRefused
	}
	return worst
}

// Refused steps of the plan.
func (p Plan) Refused() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Verb == VerbRefuse {
			out = append(out, s)
		}
	}
	return out
}

// Lines are the steps as a user reads them. Neighbours that do the same to
// several objects are one line.
func (p Plan) Lines() []string {
	var lines []string
	for i := 0; i < len(p.Steps); {
		s, names := p.Steps[i], []string{p.Steps[i].Name}
		for i++; i < len(p.Steps) && s.alike(p.Steps[i]); i++ {
			names = append(names, p.Steps[i].Name)
		}
		if len(names) > 1 {
			s.Kind, s.Name = s.Kind+"s", strings.Join(names, ", ")
		}
		lines = append(lines, s.String())
	}
	return lines
}

// alike says whether two steps can be reported as one.
func (s Step) alike(o Step) bool {
	return s.Name != "" && o.Name != "" && s.Part != s.Name && o.Part != o.Name &&
		s.Verb == o.Verb && s.Kind == o.Kind && s.Part == o.Part && s.Why == o.Why && s.Impact == o.Impact &&
		(s.Later > 0) == (o.Later > 0) && slices.Equal(s.Changes, o.Changes)
}

// String is the whole plan in one line, as events show it.
func (p Plan) String() string {
	if p.Empty() {
		return "nothing to do"
	}
	return strings.Join(p.Lines(), "; ") + "; impact: " + p.Impact().String()
}
