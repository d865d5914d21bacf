package metallb

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// Many long complaints fit into a table, and a state that says so already is not
// changed.
func TestConfigurationState(t *testing.T) {
	var found []metallb.Problem
	for range 20 {
		found = append(found, metallb.Problem{Kind: "IPAddressPool", Object: types.NamespacedName{Namespace: "metallb-system", Name: "x"},
			Reason: lb.PoolInvalid.With(strings.Repeat("ä", 300))})
	}
	found = append(found, metallb.Problem{Kind: "L2Advertisement", Reason: metallb.Reasons.With(metallb.AdvertisementReady, "all pools")})
	text := summary(found)
	if !strings.HasSuffix(text, "And 15 more.") {
		t.Errorf("summary is %s", text)
	}
	now := time.Now()
	s := stateOf(text, nil, now)
	if s.Result != metallbapi.Invalid || len(s.ErrorSummary) > stateSummaryMost || !json.Valid([]byte(`"`+s.ErrorSummary+`"`)) {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(s, stateOf(text, s.Conditions, now.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	fine := stateOf(summary(found[20:]), s.Conditions, now)
	if c := fine.Conditions[0]; fine.Result != metallbapi.Valid || fine.ErrorSummary != "" || c.Type != "poolReconcilerValid" || c.Reason != "Reconciled" || c.Message != "" {
		t.Errorf("%+v", fine)
	}
}
