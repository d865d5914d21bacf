package ipam

import (
	"math/rand/v2"
	"slices"
	"testing"

	"fairlead.io/internal/lb"
)

// Two Services that have any number of ports are in each other's way on the first
// port of the one that the other has, too.
func TestConflictOfPorts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ports := func() []lb.Port {
		out := make([]lb.Port, random.IntN(2*fewPorts+2))
		for i := range out {
			out[i] = lb.Port{Protocol: []string{"TCP", "UDP"}[random.IntN(2)], Number: uint16(random.IntN(150))}
		}
		return out
	}
	seen := map[conflict]int{}
	for range 2_000 {
		a, b := &service{}, &service{}
		for _, s := range []*service{a, b} {
			s.asks(&lb.Request{ShareKey: "k", Ports: ports()})
		}
		want, first := noConflict, lb.Port{}
		if i := slices.IndexFunc(a.req.Ports, func(p lb.Port) bool { return slices.Contains(b.req.Ports, p) }); i >= 0 {
			want, first = samePort, a.req.Ports[i]
		}
		seen[want]++
		if got, p := conflictOf(a, b, lb.IPv4); got != want || p != first {
			t.Fatalf("%v and %v: %d %v, want %d %v", a.req.Ports, b.req.Ports, got, p, want, first)
		}
	}
	if seen[noConflict] < 100 || seen[samePort] < 100 {
		t.Errorf("the test is about nothing: %v", seen)
	}
}

// Services with very many ports: BenchmarkManyPorts shows what comparing them costs.
func TestManyPorts(t *testing.T) {
	const n = 60_000
	a, b := &service{}, &service{}
	a.asks(&lb.Request{ShareKey: "k", Ports: manyPorts(0, n)})
	udp := manyPorts(0, n)
	for i := range udp {
		udp[i].Protocol = "UDP"
	}
	b.asks(&lb.Request{ShareKey: "k", Ports: udp})
	if c, p := conflictOf(a, b, lb.IPv4); c != noConflict {
		t.Errorf("conflict %d on %v", c, p)
	}
	b.asks(&lb.Request{ShareKey: "k", Ports: append(udp, lb.Port{Protocol: "TCP", Number: 7})})
	if c, p := conflictOf(a, b, lb.IPv4); c == noConflict || p != (lb.Port{Protocol: "TCP", Number: 7}) {
		t.Errorf("conflict %d on %v", c, p)
	}
}

// What counts are the ports that a Service has now, be they few or many.
func TestPortsThatChange(t *testing.T) {
	for _, n := range []int{1, fewPorts, fewPorts + 1} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
		r := requestOf("a", 1)
		r.ShareKey, r.Ports = "k", manyPorts(100, n)
		a.Settle(r, nil)
		r.Ports = manyPorts(200, n)
		a.Settle(r, nil)
		for i, free := range map[int]bool{100 + n - 1: true, 200 + n - 1: false} {
			other := requestOf("b", 2)
			other.ShareKey, other.Ports, other.Addresses = "k", manyPorts(i, 1), addrs("192.0.2.0")
			if v, _ := a.Settle(other, nil); (len(v.Addresses) == 1) != free {
				t.Errorf("%d ports, of which another Service wants %v: %s", n, other.Ports, v.Reason)
			}
			a.Forget(other.Service)
		}
	}
}
