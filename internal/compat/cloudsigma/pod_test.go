package cloudsigma

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestPodNames(t *testing.T) {
	for addr, want := range map[string][2]string{
		"185.12.6.183":      {"lb-ip-185-12-6-183", "185.12.6.183"},
		"2001:db8::7":       {"lb-ip-2001-db8--7", "2001-db8--7"},
		"2001:db8::":        {"lb-ip-2001-db8--0", "2001-db8--0"},
		"::1":               {"lb-ip-0--1", "0--1"},
		"2001:db8:1:2:3::4": {"lb-ip-2001-db8-1-2-3--4", "2001-db8-1-2-3--4"},
	} {
		a := netip.MustParseAddr(addr)
		if got := [2]string{PodName(a), LabelValue(a)}; got != want {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
		if errs := validation.IsDNS1123Subdomain(PodName(a)); len(errs) > 0 {
			t.Errorf("%s: %v", PodName(a), errs)
		}
		if errs := validation.IsValidLabelValue(LabelValue(a)); len(errs) > 0 {
			t.Errorf("%s: %v", LabelValue(a), errs)
		}
	}
}
