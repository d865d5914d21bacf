package metallb

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// Of many complaints, the first few are listed.
func TestSummary(t *testing.T) {
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
	if text := summary(found[20:]); text != "" {
		t.Errorf("nothing is wrong, but: %s", text)
	}
}
