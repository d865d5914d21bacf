package nft

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"fairlead.io/internal/lb"
	"pgregory.net/rapid"
)

var anyVIP = rapid.Custom(func(t *rapid.T) VIP {
	return VIP{
		Ports: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lb.Port {
			return lb.Port{
				Protocol: rapid.SampledFrom([]string{"TCP", "UDP", "SCTP"}).Draw(t, "protocol"),
				Number:   rapid.Uint16Range(1, 3).Draw(t, "number"),
			}
		}), 0, 4).Draw(t, "ports"),
		Interfaces: rapid.SliceOfN(rapid.SampledFrom([]string{"eth0", "enp0s31f6", "fifteen-letters"}), 0, 3).Draw(t, "interfaces"),
		Unclaimed:  rapid.Bool().Draw(t, "unclaimed"),
	}
})

var anyState = rapid.Custom(func(t *rapid.T) State {
	addrs := rapid.SampledFrom([]netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"),
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"),
	})
	return State{VIPs: rapid.MapOfN(addrs, anyVIP, 0, 4).Draw(t, "vips")}
})

func all(s State) map[element]bool {
	out := map[element]bool{}
	for a, v := range s.VIPs {
		for _, e := range elements(a, v) {
			out[e] = true
		}
	}
	return out
}

func normal(t *rapid.T, s State) map[netip.Addr]VIP {
	c, err := diff(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	out := map[netip.Addr]VIP{}
	for a, v := range c.vips {
		out[a] = *v
	}
	return out
}

// What is added and removed leads from one state's elements to the other's, adds
// nothing that is there, and removes nothing that is not.
func TestDiffLeadsFromOneStateToAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := anyState.Draw(t, "from"), anyState.Draw(t, "to")
		have := all(from)
		c, err := diff(normal(t, from), to)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.remove {
			if !have[e] {
				t.Fatalf("removes %+v, which is not there", e)
			}
			delete(have, e)
		}
		for _, e := range c.add {
			if have[e] {
				t.Fatalf("adds %+v, which is there", e)
			}
			have[e] = true
		}
		if !maps.Equal(have, all(to)) {
			t.Fatalf("leads to %v, not to %v", have, all(to))
		}
	})
}

func TestElementsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := normal(t, anyState.Draw(t, "state"))
		elems := slices.Collect(maps.Keys(all(State{VIPs: want})))
		got, ours := assemble(elems)
		if !ours || !maps.EqualFunc(got.VIPs, want, VIP.equal) {
			t.Fatalf("read back: %v (%v), want %v", got, ours, want)
		}
		if len(elems) > 0 {
			i := rapid.IntRange(0, len(elems)-1).Draw(t, "missing")
			rest := slices.Delete(slices.Clone(elems), i, i+1)
			lone := elems[i].set.kind != kindPublished || len(all(State{VIPs: map[netip.Addr]VIP{addrOf(elems[i]): want[addrOf(elems[i])]}})) == 1
			if _, ours := assemble(rest); ours != lone {
				t.Fatalf("without %+v: ours %v", elems[i], ours)
			}
		}
	})
}

func addrOf(e element) netip.Addr {
	a, _ := e.addr()
	return a
}
