package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// told tells of objects that are configured, in events: once per change. All of
// them are looked at together, between begin and end.
type told struct {
	events       *events
	before, last map[types.UID]said
}

// said is what an object was told last; nothing, if it is not known.
type said struct {
	reason lb.Reason
	known  bool
}

func (t *told) begin() { t.last = make(map[types.UID]said, len(t.before)) }

// end forgets objects that are gone.
func (t *told) end() { t.before = t.last }

// meet comes before anything is written to an object. One that is seen for the
// first time was told what its condition says, if it has one.
func (t *told) meet(uid types.UID, conditions []metav1.Condition) {
	have, met := t.before[uid]
	if c := meta.FindStatusCondition(conditions, conditionReady); c != nil && !met {
		have = said{lb.Rebuilt(lb.Code(c.Reason), c.Message, c.Status == metav1.ConditionTrue), true}
	}
	t.last[uid] = have
}

// tell emits an event if r is not what was told last. It comes after r was seen or
// written on the object. That all is well with a new one is not worth an event.
func (t *told) tell(about corev1.ObjectReference, voice lb.Dialect, r lb.Reason) {
	have := t.last[about.UID]
	t.last[about.UID] = said{r, true}
	if !have.reason.Same(r) && (have.known || r.Warning()) {
		t.events.add(about, voice, r)
	}
}

// once tells r, which never changes, of an object that has no condition of ours.
func (t *told) once(about corev1.ObjectReference, r lb.Reason) {
	if !t.before[about.UID].known {
		t.events.addOnce(about, lb.MetalLB, r)
	}
	t.last[about.UID] = said{r, true}
}
