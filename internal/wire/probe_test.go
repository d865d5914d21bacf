package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// concurrently runs all of them at the same time.
func concurrently(t *testing.T, all ...func() error) {
	t.Helper()
	results := make(chan error)
	for _, f := range all {
		go func() { results <- f() }()
	}
	for range all {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestProbeFindsTheOtherHost(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			hosts[0].add(t, f.owner)
			hosts[0].add(t, f.vipPrefix)
			a, b := hosts[0].open(t), hosts[1].open(t)
			other, err := b.Probe(t.Context(), f.vip, nil)
			if err != nil || other.String() != own(t, a) {
				t.Errorf("found %s, %v; want %s", other, err, own(t, a))
			}

			ours := func(m net.HardwareAddr) bool { return m.String() == own(t, a) }
			if other, err := b.Probe(t.Context(), f.vip, ours); err != nil || other != nil {
				t.Errorf("found %s, %v; want nobody, because it is ours", other, err)
			}

			took := time.Hour
			for try := 0; try < 5 && took > time.Second; try++ { // a busy machine may be late
				began := time.Now()
				if other, err := b.Probe(t.Context(), f.another, nil); err != nil || other != nil {
					t.Errorf("found %s, %v; want nobody", other, err)
				}
				took = time.Since(began)
			}
			if took > time.Second {
				t.Errorf("a free address took %s, want less than a second", took)
			}

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := b.Probe(ctx, f.another, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled probe: %v", err)
			}
		})
	}
}

// Two that want the same address at the same moment both learn of it.
func TestProbeHearsAnotherProbe(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			ports := []*Port{hosts[0].open(t), hosts[1].open(t)}
			var found [2]net.HardwareAddr
			ask := func(i int) func() error {
				return func() (err error) { found[i], err = ports[i].Probe(t.Context(), f.vip, nil); return err }
			}
			// On a busy machine one may be done before the other has begun.
			for range 5 {
				concurrently(t, ask(0), ask(1))
				if found[0].String() == own(t, ports[1]) || found[1].String() == own(t, ports[0]) {
					return
				}
			}
			t.Errorf("found %s and %s", found[0], found[1])
		})
	}
}

func TestManyProbesArePaced(t *testing.T) {
	now := time.Now()
	turn := probePace
	for i := range 1000 {
		wait := turn.reserve(now, probeCount)
		if i < 6 && wait > 0 || wait > 3*time.Second {
			t.Fatalf("probe %d waits %s", i, wait)
		}
		if i == 999 && wait < 2*time.Second {
			t.Fatalf("1,000 probes in %s", wait)
		}
	}
}

// A crowd of probes leaves nothing behind.
func TestManyProbes(t *testing.T) {
	hosts := lan(t, 1)
	p := hosts[0].open(t)
	var all []func() error
	for _, f := range families {
		addr := f.vip
		for range 20 {
			addr = addr.Next()
			for _, a := range []netip.Addr{addr, addr} {
				all = append(all, func() error { _, err := p.Probe(t.Context(), a, nil); return err })
			}
		}
	}
	concurrently(t, all...)
	if len(p.probes) > 0 {
		t.Errorf("%d probes left", len(p.probes))
	}
}
