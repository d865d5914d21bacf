package cloudscale

import (
	"context"
	"net/netip"
	"time"
)

// probeConfig is what is checked, and who wants to know.
type probeConfig struct {
	monitor HealthMonitor
	target  netip.AddrPort
	pool    *backend
}

// probe checks one member, again and again.
type probe struct {
	config probeConfig
	stop   context.CancelFunc
}

func (f *Forwarder) startProbe(ctx context.Context, member string, c probeConfig) *probe {
	ctx, stop := context.WithCancel(ctx)
	f.work.Go(func() { f.keepProbing(ctx, member, c) })
	return &probe{c, stop}
}

// keepProbing reports a member up or down after as many checks in a row as the
// monitor wants.
func (f *Forwarder) keepProbing(ctx context.Context, member string, c probeConfig) {
	second := f.options.Second
	ticker := time.NewTicker(time.Duration(c.monitor.DelayS) * second)
	defer ticker.Stop()
	row, last, reported := 0, false, ""
	for {
		within, cancel := context.WithTimeout(ctx, time.Duration(c.monitor.TimeoutS)*second)
		err := check(within, c.monitor, c.target)
		cancel()
		if ctx.Err() != nil {
			return
		}
		up := err == nil
		if up != last {
			row = 0
		}
		row, last = row+1, up
		status, enough := "down", c.monitor.DownThreshold
		if up {
			status, enough = "up", c.monitor.UpThreshold
		}
		if row >= enough && status != reported {
			reported = status
			c.pool.found(member, up)
			f.sim.report(member, status)
			f.options.Log.Info("member is "+status, "member", c.target, "check", c.monitor.Type, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
