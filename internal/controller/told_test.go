package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// An object is told of once per change, also if its status could not be written,
// or its answer was lost, in between.
func TestObjectsAreToldOncePerChange(t *testing.T) {
	events := newEvents(nil, nil, nil)
	told := &Told{events: events}
	about := corev1.ObjectReference{Kind: "IPAddressPool", Name: "lan", UID: "u"}
	voice := metallb.Dialect{}.Voice()
	fine, bad, worse := lb.PoolReady.With(), lb.PoolInvalid.With("this"), lb.PoolInvalid.With("that")
	round := func(has, now lb.Reason, written bool) (said compat.Event) {
		told.begin()
		defer told.end()
		var conditions []metav1.Condition
		if has.Code != "" {
			conditions = WithReady(nil, has, time.Now())
		}
		told.Meet(about.UID, conditions)
		if written {
			told.Tell(about, voice, now)
		}
		w, ok := events.next()
		if ok && (w.about != about || w.warning != now.Warning()) {
			t.Errorf("told of %v, warning: %v", w.about, w.warning)
		}
		return w.event
	}
	var nothing compat.Event
	as := func(r lb.Reason) compat.Event { return voice.Event(r, nil, nil) }
	for i, step := range []struct {
		has, now lb.Reason
		written  bool
		want     compat.Event
	}{
		{lb.Reason{}, fine, true, nothing}, // a new one that is fine
		{fine, fine, true, nothing},
		{fine, bad, false, nothing},        // the answer is lost,
		{bad, bad, true, as(bad)},          // though it was written
		{bad, bad, true, nothing},          // once
		{bad, worse, true, as(worse)},      // a change
		{worse, fine, true, as(fine)},      // all is well again
		{lb.Reason{}, fine, true, nothing}, // kinds without conditions
	} {
		if got := round(step.has, step.now, step.written); got != step.want {
			t.Errorf("step %d: told %v, want %v", i, got, step.want)
		}
	}
	told.before = nil // another process
	if got := round(bad, bad, true); got != nothing {
		t.Errorf("a restart repeats %v", got)
	}
	told.before = nil
	if got := round(fine, bad, true); got != as(bad) {
		t.Errorf("what changed while nobody looked is told as %v", got)
	}
}
