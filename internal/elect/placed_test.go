package elect

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// An address that the controller has placed is where it says, with or without
// endpoints, and nowhere else.
func TestPlaced(t *testing.T) {
	node := func(name string, alive bool) Node {
		return Node{Name: name, Alive: alive, ProxyHealthy: true, Interfaces: map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0")}}
	}
	nodes := []Node{node("a", true), node("b", true), node("c", false)}
	for name, test := range map[string]struct {
		carriers []string
		claims   []Claim
		local    bool
		want     string
		why      Why
	}{
		"one":                         {carriers: []string{"b"}, want: "b", why: ByHash},
		"whoever has it":              {carriers: []string{"b"}, claims: []Claim{{Node: "a", Epoch: 7, Up: true}}, want: "b", why: ByHash},
		"any":                         {carriers: []string{lb.AnyNode}, claims: []Claim{{Node: "a", Epoch: 7, Up: true}}, want: "a", why: Kept},
		"nobody says":                 {why: NoNode},
		"one that is dead":            {carriers: []string{"c"}, why: NoNode},
		"one without a pod, if Local": {carriers: []string{"b"}, local: true, why: NoNode},
	} {
		a := Address{Addr: netip.MustParseAddr("192.0.2.7"), Advertisements: []lb.Advertisement{{}}, Placed: true, Carriers: sets.New(test.carriers...), NeedsLocal: test.local}
		if o := Elect(a, nodes, test.claims); o.Owner != test.want || o.Why != test.why {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
