package configstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/metallb"
)

// A status that says so already is not changed, and other conditions stay.
func TestStatus(t *testing.T) {
	const ours, wrong = "poolReconcilerValid", "IPAddressPool edge: it is wrong."
	now := time.Now()
	theirs := metav1.Condition{Type: "licenseValid", Status: metav1.ConditionTrue}
	s := statusOf(ours, wrong, []metav1.Condition{theirs}, now)
	if c := s.Conditions[1]; s.Result != metallb.Invalid || s.ErrorSummary != wrong || c.Type != ours || c.Status != metav1.ConditionFalse || c.Reason != "ConfigurationError" || c.Message != wrong {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(s, statusOf(ours, wrong, s.Conditions, now.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	fine := statusOf(ours, "", s.Conditions, now)
	if c := fine.Conditions[1]; fine.Result != metallb.Valid || fine.ErrorSummary != "" || c.Status != metav1.ConditionTrue || c.Reason != "Reconciled" || c.Message != "" {
		t.Errorf("%+v", fine)
	}
	if diff := cmp.Diff(theirs, fine.Conditions[0]); diff != "" {
		t.Error(diff)
	}
}
