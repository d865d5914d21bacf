// Package announce is the backend of addresses that the nodes announce. It publishes
// addresses in the Service's status: the agents and the Service proxy need nothing
// else. It makes no calls.
package announce

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Backend publishes what ipam settled.
type Backend struct {
	// Dialects whose notes are written on Services beside the status.
	Dialects []compat.Dialect
	// Leavers are those whose marks are taken off: another controller, which Fairlead
	// replaces, has left them.
	Leavers []compat.Leaver
	// Noted knows what a controller noted on Services while another system announced
	// them, and owned their status; nil if there is none.
	Noted Noted
}

// Noted reads the notes of another backend. Read gets what it needs for that; Proven
// says what was noted of s, and when.
type Noted interface {
	Read(ctx context.Context, secrets typedcorev1.SecretInterface) error
	Proven(s *lb.Service) (has []netip.Addr, noted time.Time)
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Holder  = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
	_ backend.Needs   = (*Backend)(nil)
	_ backend.Witness = (*Backend)(nil)
)

// Needs are the agents: they announce.
func (b *Backend) Needs() lb.Needs { return lb.Needs{Agents: true} }

// untold are the reasons of which no agent can tell by an event.
var untold = []lb.Code{lb.NoAgent, lb.AnnouncerLost}

// Open gets what tells notes of another backend from what tenants wrote. Our own are
// in the status.
func (b *Backend) Open(ctx context.Context, secrets typedcorev1.SecretInterface) (first bool, err error) {
	if b.Noted == nil {
		return false, nil
	}
	return false, b.Noted.Read(ctx, secrets)
}

// Note has nothing to add to the status.
func (b *Backend) Note(*lb.Service) lb.Marks { return lb.Marks{} }

// Close has nothing to end.
func (b *Backend) Close(context.Context, typedcorev1.SecretInterface) error { return nil }

// Sync says what the Service should say.
func (b *Backend) Sync(_ context.Context, w lb.Want) (lb.Outcome, error) {
	if w.Gone {
		return b.gone(&w), nil
	}
	out := lb.Outcome{
		Reason:      w.Verdict.Reason,
		Condition:   lb.ConditionSays,
		Unannounced: w.Unannounced,
		Ingress:     Ingress(&w.Verdict),
	}
	if r := w.Unannounced; r != nil && (w.Service.Unannounced == nil || !r.Equal(w.Service.Unannounced.Reason)) && slices.Contains(untold, r.Code) {
		out.Tell = append(out.Tell, *r)
	}
	out.Marks.Annotations = b.notes(&w.Service, &w.Verdict, w.Carrier)
	if !slices.Equal(w.Service.Ingress, out.Ingress) {
		has, want := list(w.Service.Published()), list(w.Verdict.Addresses)
		if out.Owns = fmt.Sprintf("status (%s instead of %s)", has, want); has == want {
			out.Owns = "status (the ipMode of " + want + ")"
		}
	}
	return out, nil
}

// gone takes everything of ours off a Service. The API server clears the addresses
// when the type changes; where it has not, those that we wrote are taken off.
func (b *Backend) gone(w *lb.Want) lb.Outcome {
	s, out := &w.Service, lb.Outcome{Gone: true}
	if !s.Deleting {
		out.Condition = lb.ConditionGoes
		out.Marks.Annotations = b.notes(s, &lb.Verdict{}, "")
		if s.Attested() {
			out.Ingress = []lb.Ingress{}
		}
	}
	for _, l := range b.Leavers {
		if !l.Marked(s, w.Known) {
			continue
		}
		m := l.Leave(s, &w.Request)
		for key, value := range m.Annotations {
			out.Marks.Annotate(key, value)
		}
		for key, value := range m.Labels {
			out.Marks.Label(key, value)
		}
		out.Marks.Removed = append(out.Marks.Removed, m.Removed...)
	}
	return out
}

// notes of all dialects.
func (b *Backend) notes(s *lb.Service, v *lb.Verdict, carrier string) map[string]string {
	out := map[string]string{}
	for _, d := range b.Dialects {
		if n, ok := d.(compat.Noter); ok {
			maps.Copy(out, n.Notes(s, v, carrier))
		}
	}
	return out
}

// Held is what the status publishes. Our condition names the addresses that were
// written with it; others were written by another controller, for tenants cannot
// write a status. Where that copies what tenants wrote, the note of a backend that
// worked with it is better evidence.
func (b *Backend) Held(s *lb.Service) lb.Held {
	h := lb.Held{Addresses: s.Published(), Evidence: lb.Reported}
	if h.Current = s.Attested(); h.Current && len(h.Addresses) > 0 {
		h.Evidence, h.Left = lb.Proven, true
	} else if b.Noted != nil && len(h.Addresses) > 0 {
		if has, noted := b.Noted.Proven(s); sameSet(has, h.Addresses) {
			h.Evidence, h.Noted = lb.Proven, noted
		}
	}
	return h
}

// Marked says whether s has something that we wrote, or is to be let go.
func (b *Backend) Marked(s *lb.Service) bool {
	for key, value := range b.notes(s, &lb.Verdict{}, "") {
		if _, has := s.Annotations[key]; has && value == "" {
			return true
		}
	}
	return s.Says != nil || s.Unannounced != nil || slices.ContainsFunc(b.Leavers, func(l compat.Leaver) bool { return l.Marked(s, true) })
}

// Forget has nothing to forget.
func (b *Backend) Forget(types.UID) {}

// Ingress publishes the addresses of v, to which the nodes themselves answer.
func Ingress(v *lb.Verdict) []lb.Ingress {
	out := make([]lb.Ingress, 0, len(v.Addresses))
	for _, a := range v.Addresses {
		out = append(out, lb.Ingress{IP: a.String(), Mode: lb.IPModeVIP})
	}
	return out
}

func sameSet(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x netip.Addr) bool { return !slices.Contains(b, x) })
}

func list(addresses []netip.Addr) string {
	if len(addresses) == 0 {
		return "nothing"
	}
	return prose.Commas(addresses)
}
