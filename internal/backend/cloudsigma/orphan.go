package cloudsigma

import (
	"context"
	"net/netip"
	"slices"
	"time"

	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Orphans are addresses that this cluster has claimed for Services none of which exists.
// Tags have names of Services only, and shop-web/x and shop/web-x have the same.
func (b *Backend) Orphans(ctx context.Context, exists lb.Exists) ([]lb.Orphan, error) {
	a, err := b.read(ctx, time.Now().Add(-trust))
	if err != nil {
		return nil, err
	}
	mine := compat.ClusterTag(b.cluster)
	var out []lb.Orphan
	for _, addr := range a.tagged(mine, mine) {
		tags := serviceTags(a, addr)
		o := lb.Orphan{ID: addr.String()}
		for _, tag := range tags {
			o.Names = append(o.Names, compat.ServicesOf(tag)...)
		}
		if len(o.Names) == 0 || b.isWanted(addr) {
			continue // the next look at a Service frees it, or it is in use
		}
		o.Service, o.Reason = o.Names[0], Reasons.With(AddressOrphaned, addr, tags[0])
		if !o.Lives(exists) {
			out = append(out, o)
		}
	}
	return out, nil
}

// isWanted says whether a Service wants an address.
func (b *Backend) isWanted(addr netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.memos {
		if slices.Contains(m.wants, addr) {
			return true
		}
	}
	return false
}

// Remove frees the addresses of orphans.
func (b *Backend) Remove(ctx context.Context, orphans []lb.Orphan) (lb.Plan, error) {
	var all lb.Plan
	for _, o := range orphans {
		addr, err := netip.ParseAddr(o.ID)
		if err != nil {
			return all, err
		}
		plan, err := b.free(ctx, addr, o.Service.String())
		all.Steps = append(all.Steps, plan.Steps...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// free detaches an address, and removes its tags, unless a Service has come to want it.
func (b *Backend) free(ctx context.Context, addr netip.Addr, service string) (lb.Plan, error) {
	unlock, err := b.lock(ctx, []netip.Addr{addr})
	if err != nil {
		return lb.Plan{}, err
	}
	defer unlock()
	a, err := b.read(ctx, time.Now().Add(-trust))
	if err != nil || b.isWanted(addr) {
		return lb.Plan{}, err
	}
	seen := &observation{account: a, desired: Desired{Cluster: compat.ClusterTag(b.cluster), Free: []netip.Addr{addr}}}
	out := lb.Outcome{Plan: Plan(&seen.desired, a)}
	if err := b.drop(ctx, seen); err != nil {
		return lb.Plan{}, err
	}
	done, err := b.apply(ctx, &lb.Want{}, seen, &out)
	out.Plan.Steps = out.Plan.Steps[:done]
	if err == nil {
		b.log.Info("Freed the address of a Service that no longer exists", "address", addr.String(), "service", service)
	}
	return out.Plan, err
}
