package lb

import (
	"net/netip"
	"testing"
)

// A condition attests the addresses that it says the Service has, not those that it
// only names.
func TestAttested(t *testing.T) {
	seven, eight := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	for name, test := range map[string]struct {
		reason Reason
		status string
		want   bool
	}{
		"has it":                     {Ready.With("192.0.2.7", `pool "edge"`), "192.0.2.7", true},
		"has another":                {Ready.With("192.0.2.7", `pool "edge"`), "192.0.2.8", false},
		"has it, and more is said":   {Ready.With("192.0.2.7", `pool "edge"`).And(NoPool.With("x 192.0.2.8 y")), "192.0.2.7", true},
		"named in what more is said": {Ready.With("192.0.2.7", `pool "edge"`).And(NoPool.With("x 192.0.2.8 y")), "192.0.2.8", false},
		"out of pool":                {OutOfPool.With("192.0.2.7", "is in no pool any more"), "192.0.2.7", true},
		"asks for it in vain":        {AddressInUse.With(seven, sampleService, "a key"), "192.0.2.7", false},
		"keeps it":                   {AddressInUse.With(eight, sampleService, "a key").Keeping([]netip.Addr{seven}), "192.0.2.7", true},
		"keeps another":              {AddressInUse.With(eight, sampleService, "a key").Keeping([]netip.Addr{seven}), "192.0.2.8", false},
		"somebody else wrote it":     {ForeignWriter.With("status (192.0.2.8 instead of 192.0.2.7)"), "192.0.2.8", false},
		"quoted from an annotation":  {InvalidRequest.With(`Annotation x: "y. Until then the Service keeps 192.0.2.8. z" is not an IP address`), "192.0.2.8", false},
	} {
		s := Service{Ingress: []Ingress{{IP: test.status}}, Says: &Condition{Reason: test.reason, True: test.reason.Ready()}}
		if got := s.Attested(); got != test.want {
			t.Errorf("%s: %v (%s)", name, got, test.reason)
		}
	}
}
