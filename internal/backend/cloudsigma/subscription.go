package cloudsigma

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"fairlead.io/internal/cloudsigma"
)

const (
	// endingSoon is how long before the end of a subscription its Service says so: an
	// address whose subscription has ended is dropped, or somebody else's.
	endingSoon = 7 * 24 * time.Hour
	// subscriptionPause is how often subscriptions are read, and subscriptionRetry when
	// again if that failed.
	subscriptionPause = time.Hour
	subscriptionRetry = 10 * time.Minute
)

// ending returns the addresses whose subscription ends soon, and is not renewed by
// itself, with the day.
func ending(all []cloudsigma.Subscription, now time.Time) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, s := range all {
		addr, err := netip.ParseAddr(s.Object)
		if err != nil || s.Resource != cloudsigma.ResourceIP || s.Status != cloudsigma.Active || s.AutoRenew || s.EndTime.IsZero() {
			continue
		}
		if s.EndTime.Sub(now) < endingSoon {
			out[addr.Unmap()] = s.EndTime.UTC().Format(time.DateOnly)
		}
	}
	return out
}

// readSubscriptions notes which addresses have a subscription that ends soon. It says
// whether that has changed, and when to read them again. Nothing depends on it: whoever
// may not read subscriptions is not warned.
func (b *Backend) readSubscriptions(ctx context.Context) (changed bool, next time.Duration) {
	all, err := b.client.Subscriptions.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Info("subscriptions cannot be read; Services are not warned before they end", "error", err)
		}
		return false, subscriptionRetry
	}
	now := ending(all, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = !maps.Equal(b.ending, now)
	b.ending = now
	return changed, subscriptionPause
}
