package ipam

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fairlead.io/internal/lb"
)

// TestIntervals takes and gives back at random, against a plain set; at the
// lowest keys, across the 64-bit boundary and at the highest keys.
func TestIntervals(t *testing.T) {
	for name, base := range map[string]key{
		"lowest":  {},
		"middle":  {1, math.MaxUint64 - 9},
		"highest": {math.MaxUint64, math.MaxUint64 - 19},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []key
			for k, ok := base, true; ok && len(keys) < 20; k, ok = k.next() {
				keys = append(keys, k)
			}
			in := make([]bool, len(keys))
			s := newIntervals()
			random := rand.New(rand.NewPCG(3, 4))
			for range 4000 {
				i := random.IntN(len(keys))
				if random.IntN(8) == 0 {
					j, n := i+random.IntN(len(keys)-i), 0
					for k := i; k <= j; k++ {
						if in[k] {
							n++
						}
						in[k] = false
					}
					if got := s.cut(interval{keys[i], keys[j]}); got != n {
						t.Fatalf("cut %d, want %d", got, n)
					}
				} else if random.IntN(2) == 0 {
					if s.add(keys[i]) == in[i] {
						t.Fatalf("add %v: was in it: %v", keys[i], in[i])
					}
					in[i] = true
				} else {
					if s.remove(keys[i]) != in[i] {
						t.Fatalf("remove %v: was in it: %v", keys[i], in[i])
					}
					in[i] = false
				}
				checkIntervals(t, s)
				for j, k := range keys {
					if s.contains(k) != in[j] {
						t.Fatalf("contains %v: %v", k, !in[j])
					}
				}
				first, ok := s.first()
				if j := slices.Index(in, true); ok != (j >= 0) || ok && first != keys[j] {
					t.Fatalf("first is %v", first)
				}
				last, ok := s.last()
				if j := lastIndex(in); ok != (j >= 0) || ok && last != keys[j] {
					t.Fatalf("last is %v", last)
				}
			}
		})
	}
}

func lastIndex(in []bool) int {
	for i := len(in) - 1; i >= 0; i-- {
		if in[i] {
			return i
		}
	}
	return -1
}

func TestKeys(t *testing.T) {
	for _, s := range []string{"0.0.0.0", "192.0.2.7", "255.255.255.255", "::", "2001:db8::1:0:0:0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		x := addr(s)
		if back := keyOf(x).addr(lb.FamilyOf(x)); back != x {
			t.Errorf("%s becomes %s", x, back)
		}
	}
	for _, tt := range []struct {
		from, to key
		want     int64
	}{
		{key{0, 5}, key{0, 5}, 1},
		{key{0, math.MaxUint64}, key{1, 0}, 2},
		{key{0, 0}, key{0, math.MaxInt64 - 1}, math.MaxInt64},
		{key{0, 0}, key{0, math.MaxInt64}, math.MaxInt64},
		{key{0, 0}, key{math.MaxUint64, math.MaxUint64}, math.MaxInt64},
	} {
		if got := tt.from.saturated(tt.to); got != tt.want {
			t.Errorf("%v to %v: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestCover compares the segments with asking each pool.
func TestCover(t *testing.T) {
	pools := []*pool{}
	for i, spans := range [][]string{
		{"192.0.2.0/28", "2001:db8::/120"},
		{"192.0.2.4-192.0.2.20", "192.0.2.30"},
		{"192.0.2.4-192.0.2.7", "255.255.255.250-255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124"},
		{"192.0.2.21-192.0.2.29"},
	} {
		p := poolOf(string(rune('a'+i)), spans...)
		pools = append(pools, newPool(&p, &networks{}))
		pools[i].rank = i
	}
	c := newCover(pools)
	for _, s := range []string{"192.0.1.250-192.0.2.40", "255.255.255.240-255.255.255.255", "2001:db8::-2001:db8::110", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"} {
		r := span(s)
		for x := r.From(); x.IsValid() && x.Compare(r.To()) <= 0; x = x.Next() {
			var want []*pool
			for _, p := range pools {
				if p.Contains(x) {
					want = append(want, p)
				}
			}
			if got := c.pools(x); !slices.Equal(got, want) {
				t.Errorf("%s: in %d pools, want %d", x, len(got), len(want))
			}
		}
	}
}
