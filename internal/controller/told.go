package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Told reports on configured objects by events, once per change. All objects are
// visited in one pass, between begin and end.
type Told struct {
	events       *events
	before, last map[types.UID]lastTold
}

// lastTold is the reason last reported on an object, if known.
type lastTold struct {
	reason lb.Reason
	known  bool
}

func (t *Told) begin() { t.last = make(map[types.UID]lastTold, len(t.before)) }

// end forgets objects that are gone.
func (t *Told) end() { t.before = t.last }

// Meet is called before anything is written to an object. At first sight, the
// reason in its condition, if any, counts as reported.
func (t *Told) Meet(uid types.UID, conditions []metav1.Condition) {
	have, met := t.before[uid]
	if c := meta.FindStatusCondition(conditions, ConditionPoolReady); c != nil && !met {
		have = lastTold{lb.Rebuilt(lb.Code(c.Reason), c.Message, c.Status == metav1.ConditionTrue), true}
	}
	t.last[uid] = have
}

// Tell emits an event if r differs from the reason last reported. It is called after
// r was seen or written on the object. A new object without problems gets no event.
func (t *Told) Tell(about corev1.ObjectReference, voice compat.Voice, r lb.Reason) {
	have := t.last[about.UID]
	t.last[about.UID] = lastTold{r, true}
	if !have.reason.Equal(r) && (have.known || r.Warning()) {
		t.events.add(about, voice.Event(r, nil, nil), r.Warning())
	}
}

// TellBare is Tell for an object without our condition: what an earlier controller has
// reported is not known, and reported again at most once.
func (t *Told) TellBare(about corev1.ObjectReference, voice compat.Voice, r lb.Reason) {
	have := t.before[about.UID]
	t.last[about.UID] = lastTold{r, true}
	switch {
	case !have.known && r.Warning():
		t.events.addFirst(about, voice.Event(r, nil, nil), r.Warning())
	case have.known && !have.reason.Equal(r):
		t.events.add(about, voice.Event(r, nil, nil), r.Warning())
	}
}
