package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

func TestLiving(t *testing.T) {
	agent := func(name string, status metav1.ConditionStatus) v1alpha1.Agent {
		a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if status != "" {
			a.Status.Conditions = []metav1.Condition{{Type: conditionAgentReady, Status: status}}
		}
		return a
	}
	l := livingOf([]v1alpha1.Agent{agent("new", ""), agent("fine", metav1.ConditionTrue), agent("cannot", metav1.ConditionFalse), agent("dead", metav1.ConditionUnknown)},
		map[string]lb.Reason{"dead": lb.AgentLost.With("fine")})
	// One that is lost has said nothing about what it can do.
	if diff := cmp.Diff(map[string]bool{"new": true, "fine": true, "cannot": false, "dead": true}, l.works); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"dead": true}, l.lost); diff != "" {
		t.Error(diff)
	}
	if none := (living{}); l.equal(none) || !l.equal(l) {
		t.Error("not compared")
	}
}
