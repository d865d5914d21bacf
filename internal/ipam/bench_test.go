package ipam

import (
	"fmt"
	"math/big"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

var benchDialects = []lb.Dialect{lb.Native}

func benchPool(cidr string) lb.Pool {
	return lb.Pool{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}, Spans: []netipx.IPRange{netipx.RangeOfPrefix(netip.MustParsePrefix(cidr))}}
}

func benchRequest(i int, families []lb.Family) lb.Request {
	name := fmt.Sprintf("web-%07d", i)
	return lb.Request{
		Service:  types.NamespacedName{Namespace: "shop", Name: name},
		UID:      types.UID(name),
		Created:  time.Unix(int64(i), 0),
		Dialects: benchDialects,
		Families: families,
		Ports:    []lb.Port{{Protocol: "TCP", Number: 80}},
	}
}

// BenchmarkSettle gives an address to a new Service while held others have
// theirs: in one run of addresses, and with every second one free again.
func BenchmarkSettle(b *testing.B) {
	for _, pool := range []string{"10.0.0.0/8", "2001:db8::/64"} {
		prefix := netip.MustParsePrefix(pool)
		families := []lb.Family{lb.FamilyOf(prefix.Addr())}
		for _, held := range []int{1_000, 10_000, 100_000, 1_000_000} {
			for _, holes := range []bool{false, true} {
				name := fmt.Sprintf("pool=%s/held=%d/holes=%v", new(big.Int).Lsh(big.NewInt(1), uint(prefix.Addr().BitLen()-prefix.Bits())), held, holes)
				b.Run(name, func(b *testing.B) {
					benchSettle(b, pool, families, held, holes)
				})
			}
		}
	}
}

func benchSettle(b *testing.B, pool string, families []lb.Family, held int, holes bool) {
	a := New()
	a.SetPools([]lb.Pool{benchPool(pool)})
	n := held
	if holes {
		n *= 2
	}
	for i := range n {
		a.Settle(benchRequest(i, families), nil)
	}
	if holes {
		for i := 0; i < n; i += 2 {
			a.Forget(benchRequest(i, families).Service)
		}
	}
	const batch = 512
	fresh := make([]lb.Request, batch)
	for i := range fresh {
		fresh[i] = benchRequest(10_000_000+i, families)
	}
	runtime.GC() // what the preparation left is not the Service's cost
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%batch == 0 && i > 0 {
			b.StopTimer()
			for _, r := range fresh {
				a.Forget(r.Service)
			}
			b.StartTimer()
		}
		v, _ := a.Settle(fresh[i%batch], nil)
		if !v.Reason.Ready() {
			b.Fatal(v.Reason)
		}
	}
}

// BenchmarkSettleAgain settles a Service that has what it asks for, as every
// reconcile does.
func BenchmarkSettleAgain(b *testing.B) {
	a := New()
	a.SetPools([]lb.Pool{benchPool("10.0.0.0/8")})
	families := []lb.Family{lb.IPv4}
	requests := make([]lb.Request, 10_000)
	published := make([][]netip.Addr, len(requests))
	for i := range requests {
		requests[i] = benchRequest(i, families)
		v, _ := a.Settle(requests[i], nil)
		published[i] = v.Addresses
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := i % len(requests)
		if _, changed := a.Settle(requests[n], published[n]); changed != nil {
			b.Fatal(changed)
		}
	}
}

// BenchmarkSettleShared joins an address that hundred others share.
func BenchmarkSettleShared(b *testing.B) {
	a := New()
	a.SetPools([]lb.Pool{benchPool("10.0.0.0/8")})
	families := []lb.Family{lb.IPv4}
	for i := range 100 {
		r := benchRequest(i, families)
		r.ShareKey, r.Ports = "k", []lb.Port{{Protocol: "TCP", Number: uint16(i)}}
		a.Settle(r, nil)
	}
	r := benchRequest(1000, families)
	r.ShareKey, r.Ports = "k", []lb.Port{{Protocol: "UDP", Number: 1}}
	b.ReportAllocs()
	for b.Loop() {
		a.Settle(r, nil)
		a.Forget(r.Service)
	}
}

// manyPorts are n ports from first on.
func manyPorts(first, n int) []lb.Port {
	out := make([]lb.Port, n)
	for i := range out {
		out[i] = lb.Port{Protocol: "TCP", Number: uint16(first + i)}
	}
	return out
}

// BenchmarkManyPorts joins an address whose holder has as many ports as the one that
// comes: all others, or one of them the same, which is refused. They share among
// Services of their namespace only, so that the two are compared.
func BenchmarkManyPorts(b *testing.B) {
	for _, n := range []int{500, 5_000} {
		for _, overlap := range []int{0, 1} {
			b.Run(fmt.Sprintf("ports=%d/same=%d", n, overlap), func(b *testing.B) {
				a := New()
				a.SetPools([]lb.Pool{benchPool("10.0.0.0/24")})
				families := []lb.Family{lb.IPv4}
				holder, comer := benchRequest(1, families), benchRequest(2, families)
				for i, r := range []*lb.Request{&holder, &comer} {
					r.ShareKey, r.ShareAmong, r.Ports = "k", "shop", manyPorts(1+(1-i)*(n-overlap), n)
					r.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
				}
				a.Settle(holder, nil)
				b.ReportAllocs()
				for b.Loop() {
					if v, _ := a.Settle(comer, nil); v.Reason.Ready() != (overlap == 0) {
						b.Fatal(v.Reason)
					}
					a.Forget(comer.Service)
				}
			})
		}
	}
}

// BenchmarkOneKey gives addresses to so many Services that all have one sharing
// key: with one port, so that none can join another; with a port each, so that
// all do. What is measured is one Service.
func BenchmarkOneKey(b *testing.B) {
	for _, singlePool := range []bool{false, true} {
		for _, ports := range []string{"same", "other"} {
			for _, n := range []int{1_000, 10_000} {
				b.Run(fmt.Sprintf("single-pool=%v/ports=%s/services=%d", singlePool, ports, n), func(b *testing.B) {
					benchOneKey(b, singlePool, ports == "same", n)
				})
			}
		}
	}
}

func benchOneKey(b *testing.B, singlePool, samePort bool, n int) {
	requests := make([]lb.Request, n)
	for i := range requests {
		requests[i] = benchRequest(i, []lb.Family{lb.IPv4})
		requests[i].ShareKey = "k"
		if !samePort {
			requests[i].Ports = []lb.Port{{Protocol: "TCP", Number: uint16(i)}}
		}
	}
	pool := benchPool("10.0.0.0/8")
	pool.SinglePool = singlePool
	b.ReportAllocs()
	var a *Allocator
	for i := 0; b.Loop(); i++ {
		if i%n == 0 {
			a = New()
			a.SetPools([]lb.Pool{pool})
		}
		a.Settle(requests[i%n], nil)
	}
}

// BenchmarkOneKeyWaiting deletes a Service and creates one while a thousand wait
// that have the same sharing key and the same port.
func BenchmarkOneKeyWaiting(b *testing.B) {
	for _, waiting := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			a := New()
			a.SetPools([]lb.Pool{benchPool("10.0.0.0/22")})
			request := func(i int) lb.Request {
				r := benchRequest(i, []lb.Family{lb.IPv4})
				r.ShareKey = "k"
				return r
			}
			next := 0
			for ; next < 1024+waiting; next++ {
				a.Settle(request(next), nil)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if changed := a.Forget(request(i).Service); len(changed) != 1 {
					b.Fatal(changed)
				}
				a.Settle(request(next), nil)
				next++
			}
		})
	}
}

// BenchmarkWake frees an address for which a thousand wait.
func BenchmarkWake(b *testing.B) {
	a := New()
	a.SetPools([]lb.Pool{benchPool("10.0.0.0/30")})
	families := []lb.Family{lb.IPv4}
	next := 0
	for ; next < 1004; next++ {
		a.Settle(benchRequest(next, families), nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if changed := a.Forget(benchRequest(i, families).Service); len(changed) != 1 {
			b.Fatal(changed)
		}
		b.StopTimer()
		a.Settle(benchRequest(next, families), nil)
		next++
		b.StartTimer()
	}
}

// BenchmarkSetPools replaces the pools under ten thousand Services.
func BenchmarkSetPools(b *testing.B) {
	a := New()
	pools := []lb.Pool{benchPool("10.0.0.0/8")}
	a.SetPools(pools)
	for i := range 10_000 {
		a.Settle(benchRequest(i, []lb.Family{lb.IPv4}), nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.SetPools(pools)
	}
}

// BenchmarkImport starts with ten thousand Services that have an address.
func BenchmarkImport(b *testing.B) {
	pools := []lb.Pool{benchPool("10.0.0.0/8")}
	requests := make([]lb.Request, 10_000)
	published := make([][]netip.Addr, len(requests))
	x := netip.MustParseAddr("10.0.0.0")
	for i := range requests {
		requests[i] = benchRequest(i, []lb.Family{lb.IPv4})
		published[i] = []netip.Addr{x}
		x = x.Next()
	}
	b.ReportAllocs()
	for b.Loop() {
		a := New()
		a.SetPools(pools)
		for i := range requests {
			a.Import(requests[i], published[i])
		}
		a.SettleAll()
	}
}
