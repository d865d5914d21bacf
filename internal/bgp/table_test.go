package bgp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.io/test/kit/netns"
)

// anyTable makes tables of few prefixes and few attributes, so that they meet again.
func anyTable(t *rapid.T) Table {
	out := Table{}
	for range rapid.IntRange(0, 40).Draw(t, "routes") {
		addr, bits := netip.AddrFrom4([4]byte{203, 0, 113, rapid.Byte().Draw(t, "byte")}), rapid.IntRange(8, 32).Draw(t, "bits")
		if rapid.Bool().Draw(t, "IPv6") {
			addr, bits = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 9, 15: rapid.Byte().Draw(t, "byte")}), rapid.IntRange(32, 128).Draw(t, "bits")
		}
		a := Attributes{Draining: rapid.Bool().Draw(t, "draining"), LocalPref: rapid.SampledFrom([]uint32{0, 200}).Draw(t, "preference")}
		for range rapid.IntRange(0, 3).Draw(t, "communities") {
			a.Communities = append(a.Communities, Community(64500<<16|rapid.IntRange(0, 3).Draw(t, "community")))
			a.LargeCommunities = append(a.LargeCommunities, LargeCommunity{64500, 1, uint32(rapid.IntRange(0, 3).Draw(t, "large"))})
		}
		out[netip.PrefixFrom(addr, bits).Masked()] = a
	}
	return out
}

// TestDifferencesAddUp: a router that was told of several tables, one after the other, has what
// one has that was told of the last only; and what is told twice is silence.
func TestDifferencesAddUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e, told, step := newEncoder(external(), hops), rib{}, change{}
		var want Table
		for range rapid.IntRange(1, 4).Draw(r, "tables") {
			want = anyTable(r)
			step = mustPlan(t, newEncoder(external(), hops), step.after, want, 0)
			told.apply(t, step.messages...)
		}
		once := rib{}
		once.apply(t, mustPlan(t, e, nil, want, 0).messages...)
		if len(once) != len(want) || fmt.Sprint(once) != fmt.Sprint(told) {
			r.Fatalf("step by step %v, at once %v, want %v", told, once, want)
		}
		if again := mustPlan(t, e, step.after, want, 0); len(again.messages) > 0 {
			r.Fatalf("%d messages for no change", len(again.messages))
		}
	})
}

// TestRoutersTakeWhatWeWrite: all kinds of tables, in one session that never breaks.
func TestRoutersTakeWhatWeWrite(t *testing.T) {
	t.Run("FRR", func(t *testing.T) {
		l := newLab(t)
		l.useFRR("192.0.2.11", "65010")
		l.takesAll(func() (prefixes []string) {
			for _, family := range []string{"ipv4", "ipv6"} {
				var out struct{ Routes map[string]json.RawMessage }
				if err := json.Unmarshal([]byte(l.frr.Show("show bgp "+family+" unicast json")), &out); err != nil {
					t.Fatal(err)
				}
				prefixes = slices.AppendSeq(prefixes, maps.Keys(out.Routes))
			}
			return prefixes
		})
	})
	t.Run("BIRD", func(t *testing.T) {
		l := newLab(t)
		l.useBIRD(channels, "")
		l.takesAll(func() (prefixes []string) {
			for line := range strings.Lines(l.bird.Show("show route protocol node")) {
				if first, _, _ := strings.Cut(line, " "); strings.Contains(first, "/") {
					prefixes = append(prefixes, first)
				}
			}
			return prefixes
		})
	})
}

// takesAll announces tables to a router, which has these prefixes.
func (l *lab) takesAll(has func() []string) {
	l.t.Helper()
	a := l.speak(quick(), nil)
	example := rapid.Custom(anyTable)
	for seed := range 8 {
		want := example.Example(seed)
		a.Set("r1", want)
		a.synced()
		netns.Eventually(l.t, patience, fmt.Sprintf("the router has table %d", seed), func() bool {
			got := has()
			for p := range want {
				if !slices.Contains(got, p.String()) {
					return false
				}
			}
			return len(got) == len(want)
		})
	}
	if st, _ := a.Status("r1"); st.Established != 1 || st.Received.Notifications != 0 {
		l.t.Errorf("status: %+v", st)
	}
}
