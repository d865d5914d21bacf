package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
)

// Only what has changed is written.
func TestChangesOf(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	}
	ready := func(status metav1.ConditionStatus, minute int) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: "R", LastTransitionTime: at(minute)}}
	}
	for name, c := range map[string]struct {
		have *v1alpha1.AgentStatus
		want v1alpha1.AgentStatus
		text string
	}{
		"no object": {nil, v1alpha1.AgentStatus{Version: "v1", Conditions: ready("True", 1)},
			`{"announced":0,"conditions":[{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"","reason":"R","status":"True","type":"Ready"}],"version":"v1"}`},
		"an object that says nothing": {&v1alpha1.AgentStatus{}, v1alpha1.AgentStatus{Conditions: ready("True", 1)},
			`{"announced":0,"conditions":[{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"","reason":"R","status":"True","type":"Ready"}]}`},
		"the same, later": {&v1alpha1.AgentStatus{Version: "v1", Conditions: ready("True", 1)}, v1alpha1.AgentStatus{Version: "v1", Conditions: ready("True", 2)}, `{}`},
		"one field":       {&v1alpha1.AgentStatus{Version: "v1", Conditions: ready("True", 1)}, v1alpha1.AgentStatus{Version: "v1", Lost: []string{"b"}, Conditions: ready("True", 2)}, `{"lost":["b"]}`},
		"one field less":  {&v1alpha1.AgentStatus{Lost: []string{"b"}, Conditions: ready("True", 1)}, v1alpha1.AgentStatus{Conditions: ready("True", 2)}, `{"lost":null}`},
		"nothing announced": {&v1alpha1.AgentStatus{Announced: 2, Conditions: ready("True", 1)}, v1alpha1.AgentStatus{Conditions: ready("True", 2)},
			`{"announced":0}`},
		"another state": {&v1alpha1.AgentStatus{Conditions: ready("Unknown", 1)}, v1alpha1.AgentStatus{Conditions: ready("True", 2)},
			`{"conditions":[{"lastTransitionTime":"2026-01-01T00:02:00Z","message":"","reason":"R","status":"True","type":"Ready"}]}`},
		"another state, that somebody else wrote later": {&v1alpha1.AgentStatus{Conditions: ready("Unknown", 3)}, v1alpha1.AgentStatus{Conditions: ready("True", 2)},
			`{"conditions":[{"lastTransitionTime":"2026-01-01T00:03:00Z","message":"","reason":"R","status":"True","type":"Ready"}]}`},
	} {
		text, err := json.Marshal(changesOf(c.have, &c.want))
		if err != nil || string(text) != c.text {
			t.Errorf("%s: %s, %v; want %s", name, text, err, c.text)
		}
	}
}

// What the reporter knows of the object is never older than its last write.
func TestReporterObserves(t *testing.T) {
	r := newReporter("a", nil, nil, slog.New(slog.DiscardHandler), nobody{})
	object := func(version, says string) *v1alpha1.Agent {
		return &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}, Status: v1alpha1.AgentStatus{Version: says, Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}}}}
	}
	now := time.Now()
	woken := func() bool {
		r.repair(now)
		select {
		case <-r.arrived:
			return true
		default:
			return false
		}
	}
	r.observe(object("10", "v2"))
	r.set(object("", "v2").Status)
	same(t, "there is nothing to write", woken(), false)
	r.observe(object("9", "v1"))
	same(t, "of before", woken(), false)
	r.observe(object("11", "v1"))
	same(t, "somebody else wrote", woken(), true)
	r.observe(object("12", "v1"))
	same(t, "somebody else wrote again", woken(), false)
	now = now.Add(repairPause)
	same(t, "after a while", woken(), true)
	now = now.Add(repairPause)
	r.observe(object("13", "v2"))
	same(t, "as it should be", woken(), false)
	r.observe(nil)
	same(t, "gone", woken(), true)
	r.set(object("", "v3").Status)
	same(t, "something new", woken(), true)
}

// Agents of nodes that have none are looked for, less and less often, and at once
// again when a node comes.
func TestSearchForAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnown("a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked, found atomic.Int32
		var more atomic.Bool
		go k.search(ctx, func(context.Context) ([]string, error) {
			asked.Add(1)
			if more.Load() {
				return []string{"a", "b"}, nil
			}
			return []string{"a"}, nil
		}, func() { found.Add(1) })
		after(time.Hour)
		same(t, "searches without strangers", asked.Load(), 0)
		k.setStrangers(sets.New("b"))
		after(soonest)
		same(t, "searches for b", asked.Load(), 1)
		after(time.Hour)
		if asked.Load() > 20 {
			t.Errorf("%d searches in an hour", asked.Load())
		}
		more.Store(true)
		asked.Store(0)
		after(latest)
		same(t, "found b", []any{asked.Load(), found.Load(), k.has("b")}, "[1 1 true]")
		k.setStrangers(nil)
		after(time.Hour)
		same(t, "searches when all are known", asked.Load(), 1)
	})
}
