package ipam

import (
	"fmt"
	"math/big"
	"net/netip"
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
