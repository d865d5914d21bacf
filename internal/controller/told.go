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
	before, last map[types.UID]lb.Reason
}

func (t *told) begin() { t.last = make(map[types.UID]lb.Reason, len(t.before)) }

// end forgets objects that are gone.
func (t *told) end() { t.before = t.last }

// tell emits an event if r is not what was told last. An object that is seen for
// the first time was told what its condition says; if it has none, all being well
// is not worth an event.
func (t *told) tell(about corev1.ObjectReference, voice lb.Dialect, conditions []metav1.Condition, r lb.Reason) {
	before, known := t.before[about.UID]
	if c := meta.FindStatusCondition(conditions, conditionReady); c != nil && !known {
		before, known = lb.Reason{Code: lb.Code(c.Reason), Text: c.Message}, true
	}
	t.last[about.UID] = r
	if before != r && (known || r.Warning()) {
		t.events.add(about, voice, r)
	}
}

// once tells r, which never changes, of an object that has no condition of ours.
func (t *told) once(about corev1.ObjectReference, r lb.Reason) {
	if _, known := t.before[about.UID]; !known {
		t.events.addOnce(about, r)
	}
	t.last[about.UID] = r
}
