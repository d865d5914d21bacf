package cloudsigma

import (
	"fmt"
	"slices"
	"time"

	"fairlead.io/sandbox/simulator"
)

// Knobs are about what nobody has written down, or what differs between places.
// What is empty has its default, the first of the values.
type Knobs struct {
	// Running is what a change of the cards of a running server does. The vendor
	// documents "ignore"; the document that we follow has seen "store": the change is
	// stored and its firewall applied, and the guest has the card after a reboot.
	Running string `json:"running,omitempty"` // store, ignore, reject
	// Unowned is what becomes of a static card with an address that is not subscribed.
	Unowned string `json:"unowned,omitempty"` // refuse, accept
	// TagForm is the form of a tag's resources that is accepted.
	TagForm string `json:"tag_form,omitempty"` // both, strings, objects
	// TagLists is which of the two lists of tags has their resources.
	TagLists string `json:"tag_lists,omitempty"` // plain, detail
	// ErrorForm is that of errors.
	ErrorForm string `json:"error_form,omitempty"` // array, object, html
	// FirewallDelay is how long after a change of a running server its firewall has
	// it: 30s at times.
	FirewallDelay simulator.Duration `json:"firewall_delay,omitempty"`
	// MaxPage is how many objects a list has at most, whatever is asked for; 0: all.
	MaxPage int `json:"max_page,omitempty"`
	// TokenLifetime of impersonated users; 0: 15 minutes, and the answer does not say.
	TokenLifetime simulator.Duration `json:"token_lifetime,omitempty"`
}

const defaultTokenLifetime = 15 * time.Minute

var knobValues = []struct {
	name   string
	of     func(*Knobs) *string
	values []string
}{
	{"running", func(k *Knobs) *string { return &k.Running }, []string{"store", "ignore", "reject"}},
	{"unowned", func(k *Knobs) *string { return &k.Unowned }, []string{"refuse", "accept"}},
	{"tag_form", func(k *Knobs) *string { return &k.TagForm }, []string{"both", "strings", "objects"}},
	{"tag_lists", func(k *Knobs) *string { return &k.TagLists }, []string{"plain", "detail"}},
	{"error_form", func(k *Knobs) *string { return &k.ErrorForm }, []string{"array", "object", "html"}},
}

func (k Knobs) complete() Knobs {
	for _, knob := range knobValues {
		if v := knob.of(&k); *v == "" {
			*v = knob.values[0]
		}
	}
	return k
}

// Check finds values that no knob has.
func (k Knobs) Check() error {
	for _, knob := range knobValues {
		if v := *knob.of(&k); v != "" && !slices.Contains(knob.values, v) {
			return fmt.Errorf("knob %s %q: want one of %v", knob.name, v, knob.values)
		}
	}
	return nil
}

// Turn sets knobs while the cloud runs.
func (s *Simulator) Turn(f func(*Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
	s.knobs = s.knobs.complete()
	s.change()
}
