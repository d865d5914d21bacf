package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Told tells of objects that are configured, in events: once per change. All of
// them are looked at together, between begin and end.
type Told struct {
	events       *events
	before, last map[types.UID]saidOf
}

// saidOf is what an object was told last; nothing, if it is not known.
type saidOf struct {
	reason lb.Reason
	known  bool
}

func (t *Told) begin() { t.last = make(map[types.UID]saidOf, len(t.before)) }

// end forgets objects that are gone.
func (t *Told) end() { t.before = t.last }

// Meet comes before anything is written to an object. One that is seen for the
// first time was told what its condition says, if it has one.
func (t *Told) Meet(uid types.UID, conditions []metav1.Condition) {
	have, met := t.before[uid]
	if c := meta.FindStatusCondition(conditions, ConditionPoolReady); c != nil && !met {
		have = saidOf{lb.Rebuilt(lb.Code(c.Reason), c.Message, c.Status == metav1.ConditionTrue), true}
	}
	t.last[uid] = have
}

// Tell emits an event if r is not what was told last. It comes after r was seen or
// written on the object. That all is well with a new one is not worth an event.
func (t *Told) Tell(about corev1.ObjectReference, voice compat.Voice, r lb.Reason) {
	have := t.last[about.UID]
	t.last[about.UID] = saidOf{r, true}
	if !have.reason.Equal(r) && (have.known || r.Warning()) {
		t.events.add(about, voice.Event(r, nil, nil), r.Warning())
	}
}

// Once tells r, which never changes, of an object that has no condition of ours.
func (t *Told) Once(about corev1.ObjectReference, voice compat.Voice, r lb.Reason) {
	if !t.before[about.UID].known {
		t.events.addFirst(about, voice.Event(r, nil, nil), r.Warning())
	}
	t.last[about.UID] = saidOf{r, true}
}
