package nft_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// services is a state with n Services, dual-stack with two ports each, of which
// one in ten is this node's.
func services(n int) nft.State {
	s := nft.State{VIPs: map[netip.Addr]nft.VIP{}}
	for i := range n {
		v := nft.VIP{Ports: http}
		if i%10 == 0 {
			v.Interfaces = []string{"eth0"}
		}
		for _, f := range lb.Families {
			s.VIPs[nth(f, i)] = v
		}
	}
	return s
}

func nth(f lb.Family, i int) netip.Addr {
	b := pair("10.0.0.0", "2001:db8::")[f].AsSlice()
	binary.BigEndian.PutUint32(b[len(b)-4:], binary.BigEndian.Uint32(b[len(b)-4:])+uint32(i))
	a, _ := netip.AddrFromSlice(b)
	return a
}

func benchTable(b *testing.B, s nft.State) *nft.Table {
	table, err := nft.OpenIn(slog.New(slog.DiscardHandler), netns.New(b, "node").FD())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = table.Close() })
	if err := table.Apply(s); err != nil {
		b.Fatal(err)
	}
	return table
}

// report tells percentiles: what matters is how long a take-over may take.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}

func timed(b *testing.B, f func(i int) error) {
	took := make([]time.Duration, 0, 1<<10)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if err := f(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	report(b, took)
}

// One Service more or less, and one taken over or given up.
func BenchmarkOneService(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, how := range []string{"Apply", "Update"} {
			b.Run(fmt.Sprintf("%s-%d", how, n), func(b *testing.B) {
				s := services(n)
				table := benchTable(b, s)
				timed(b, func(i int) error {
					changes := map[netip.Addr]*nft.VIP{}
					for _, f := range lb.Families {
						switch a := nth(f, n); i % 3 {
						case 0:
							changes[a] = &nft.VIP{Ports: http}
						case 1:
							changes[a] = &nft.VIP{Ports: http, Interfaces: []string{"eth0"}}
						default:
							changes[a] = nil
						}
					}
					if how == "Update" {
						return table.Update(changes)
					}
					for a, v := range changes {
						if v == nil {
							delete(s.VIPs, a)
						} else {
							s.VIPs[a] = *v
						}
					}
					return table.Apply(s)
				})
			})
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	for _, interfaces := range []int{1, 10} {
		for _, n := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%d-interfaces-%d-services", interfaces, n), func(b *testing.B) {
				table := benchTable(b, services(n))
				names := make([]string, interfaces)
				for i := range names {
					names[i] = fmt.Sprintf("eth%d", i)
					if err := table.Grant(names[i]); err != nil {
						b.Fatal(err)
					}
				}
				timed(b, func(int) error {
					lost, err := table.Renew(names)
					if len(lost) > 0 {
						return fmt.Errorf("lost %v", lost)
					}
					return err
				})
			})
		}
	}
}

func BenchmarkRebuild(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := services(n)
			table := benchTable(b, s)
			timed(b, func(int) error { return table.Rebuild(s, nil) })
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ns := netns.New(b, "node")
			table, err := nft.OpenIn(slog.New(slog.DiscardHandler), ns.FD())
			if err == nil {
				err = table.Apply(services(n))
			}
			if err != nil {
				b.Fatal(err)
			}
			_ = table.Close()
			timed(b, func(int) error {
				table, err := nft.OpenIn(slog.New(slog.DiscardHandler), ns.FD())
				if err != nil {
					return err
				}
				if s, _ := table.Leftover(); len(s.VIPs) != 2*n {
					return fmt.Errorf("%d addresses left over", len(s.VIPs))
				}
				return table.Close()
			})
		})
	}
}

// Carrying a connection on and off is done in the middle of a move, and renewing happens all
// the time.
func BenchmarkCarry(b *testing.B) {
	for _, others := range []int{0, 10_000, 60_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			n := newCarryNode(b)
			n.prepare("eth0")
			all := some(others+100, "eth0")
			n.must(n.Update(all, nil))
			timed(b, func(i int) error {
				if i%2 == 0 {
					return n.Update(nil, all[others:])
				}
				return n.Update(all[others:], nil)
			})
		})
	}
}
