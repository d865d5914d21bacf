package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

const (
	settleBatch   = 500 // new Services, settled and then forgotten
	settleBatches = 200
)

// allocation: what it costs to decide about one more Service while others hold
// addresses. No API server takes part.
func allocation(ctx context.Context, _ settings) ([]Row, error) {
	var rows []Row
	for _, cidr := range []string{"10.0.0.0/8", "2001:db8::/64"} {
		more, err := allocationIn(ctx, netip.MustParsePrefix(cidr))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	more, err := allocationInFull(ctx, netip.MustParsePrefix("10.0.0.0/16"))
	return append(rows, more...), err
}

// allocationInFull: whoever looks for a free address from the first one on has
// most to do in a pool of which every hundredth is free. It is one of MetalLB's.
func allocationInFull(ctx context.Context, prefix netip.Prefix) ([]Row, error) {
	f := newFiller(prefix, metallb.Name)
	empty, err := f.settle(ctx)
	if err != nil {
		return nil, err
	}
	f.fill(1 << (prefix.Addr().BitLen() - prefix.Bits()))
	f.perforate(100)
	full, err := f.settle(ctx)
	if err != nil {
		return nil, err
	}
	in := fmt.Sprintf("in a /%d", prefix.Bits())
	return []Row{
		info(in+" that is empty", empty/1000, "µs").below(2),
		info(in+" that is 99 % full", full/1000, "µs").below(2),
		info(in+", 99 % full to empty", full/empty, "×").atMost(2),
	}, nil
}

func allocationIn(ctx context.Context, prefix netip.Prefix) ([]Row, error) {
	f := newFiller(prefix, lb.Native)
	in := fmt.Sprintf("in a /%d", prefix.Bits())
	var rows []Row
	var few, many float64
	for _, held := range []int{1_000, 100_000, 1_000_000} {
		f.fill(held)
		ns, err := f.settle(ctx)
		if err != nil {
			return nil, err
		}
		if few == 0 {
			few = ns
		}
		many = ns
		rows = append(rows, info(fmt.Sprintf("%s with %d held", in, held), ns, "ns").below(2000))
	}
	rows = append(rows, info(in+", 1000000 held to 1000 held", many/few, "×").atMost(2))
	f.fill(2 * f.held)
	f.perforate(2)
	ns, err := f.settle(ctx)
	return append(rows, info(in+" with 1000000 held, each next to a free one", ns, "ns").below(2000)), err
}

// filler fills an allocator.
type filler struct {
	alloc    *ipam.Allocator
	families []lb.Family
	held     int
}

func newFiller(prefix netip.Prefix, dialect lb.Dialect) *filler {
	f := &filler{alloc: ipam.New(), families: []lb.Family{lb.FamilyOf(prefix.Addr())}}
	f.alloc.SetPools([]lb.Pool{{
		Key:        lb.PoolKey{Dialect: dialect, Name: poolName},
		Spans:      []netipx.IPRange{netipx.RangeOfPrefix(prefix)},
		SinglePool: dialect == metallb.Name,
	}})
	return f
}

// fill until so many addresses are held.
func (f *filler) fill(held int) {
	for ; f.held < held; f.held++ {
		f.alloc.Settle(f.request(f.held), nil)
	}
}

// perforate frees one of every so many addresses.
func (f *filler) perforate(every int) {
	for i := 0; i < f.held; i += every {
		f.alloc.Forget(f.request(i).Service)
	}
}

// settle returns the nanoseconds of one Settle: the median of batches.
func (f *filler) settle(ctx context.Context) (float64, error) {
	fresh := make([]lb.Request, settleBatch)
	for i := range fresh {
		fresh[i] = f.request(f.held + i)
	}
	runtime.GC()
	var each []float64
	for range settleBatches {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		began := time.Now()
		for _, r := range fresh {
			if v, _ := f.alloc.Settle(r, nil); !v.Reason.Ready() {
				return 0, fmt.Errorf("no address: %s", v.Reason)
			}
		}
		each = append(each, float64(time.Since(began))/settleBatch)
		for _, r := range fresh {
			f.alloc.Forget(r.Service)
		}
	}
	return median(each), nil
}

func (f *filler) request(i int) lb.Request {
	name := fmt.Sprintf("web-%07d", i)
	return lb.Request{
		Service:  types.NamespacedName{Namespace: namespace, Name: name},
		UID:      types.UID(name),
		Created:  time.Unix(int64(i), 0),
		Dialects: []lb.Dialect{lb.Native, metallb.Name},
		Families: f.families,
		Ports:    []lb.Port{{Protocol: "TCP", Number: 80}},
	}
}
