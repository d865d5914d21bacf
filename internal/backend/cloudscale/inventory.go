package cloudscale

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
)

// trust is how long what was read counts, with our own changes since. All
// looks within this time share one reading of each kind; changes by others are
// seen after it. A write that fails ends it at once.
const trust = time.Minute

// inventory is what the cloud has, as it was read and as we have changed it.
type inventory struct {
	loadBalancers *cloud.ListCache[cloudscale.LoadBalancer]
	pools         *cloud.ListCache[cloudscale.Pool]
	listeners     *cloud.ListCache[cloudscale.Listener]
	monitors      *cloud.ListCache[cloudscale.HealthMonitor]
	floatingIPs   *cloud.ListCache[cloudscale.FloatingIP]

	client  *cloudscale.Client
	mu      sync.Mutex
	members map[string]*cloud.ListCache[cloudscale.Member] // by pool
	// born is when we made a load balancer: there was nothing in it.
	born map[string]time.Time
	// disabled is when we disabled new connections to a member.
	disabled map[string]time.Time
}

func newInventory(c *cloudscale.Client) *inventory {
	return &inventory{
		client:        c,
		members:       map[string]*cloud.ListCache[cloudscale.Member]{},
		born:          map[string]time.Time{},
		disabled:      map[string]time.Time{},
		loadBalancers: cached(c.LoadBalancers.List, func(o *cloudscale.LoadBalancer) string { return o.UUID }),
		pools:         cached(c.Pools.List, func(o *cloudscale.Pool) string { return o.UUID }),
		listeners:     cached(c.Listeners.List, func(o *cloudscale.Listener) string { return o.UUID }),
		monitors:      cached(c.HealthMonitors.List, func(o *cloudscale.HealthMonitor) string { return o.UUID }),
		floatingIPs:   cached(c.FloatingIPs.List, func(o *cloudscale.FloatingIP) string { return o.Network.String() }),
	}
}

// cached is a cache of a whole list.
func cached[T any](list func(context.Context, cloudscale.Tags) ([]T, error), id func(*T) string) *cloud.ListCache[T] {
	return cloud.NewListCache(func(ctx context.Context) ([]T, error) { return list(ctx, nil) }, id)
}

// contents is what belongs to one load balancer.
type contents struct {
	pools     []cloudscale.Pool
	listeners []cloudscale.Listener
	monitors  []cloudscale.HealthMonitor
	members   map[string][]cloudscale.Member // by pool
}

// contents of a load balancer as they were at that time or later.
func (v *inventory) contents(ctx context.Context, lb string, since time.Time) (contents, error) {
	v.mu.Lock()
	known := v.born[lb]
	v.mu.Unlock()
	c := contents{members: map[string][]cloudscale.Member{}}
	pools, err := v.pools.Since(ctx, since, known)
	if err != nil {
		return c, err
	}
	listeners, err := v.listeners.Since(ctx, since, known)
	if err != nil {
		return c, err
	}
	monitors, err := v.monitors.Since(ctx, since, known)
	if err != nil {
		return c, err
	}
	v.prune(pools)
	c.pools = only(pools, func(p *cloudscale.Pool) bool { return p.LoadBalancer.UUID == lb })
	c.listeners = only(listeners, func(l *cloudscale.Listener) bool { return l.LoadBalancer.UUID == lb })
	c.monitors = only(monitors, func(m *cloudscale.HealthMonitor) bool {
		return slices.ContainsFunc(c.pools, func(p cloudscale.Pool) bool { return p.UUID == m.Pool.UUID })
	})
	for _, p := range c.pools {
		if c.members[p.UUID], err = v.membersOf(p.UUID).Since(ctx, since, time.Time{}); err != nil {
			return c, err
		}
	}
	return c, nil
}

// only returns the objects that are asked for, as a list of its own.
func only[T any](all []T, is func(*T) bool) []T {
	var out []T
	for i := range all {
		if is(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// prune drops the members of pools that are gone, before they become too many.
func (v *inventory) prune(pools []cloudscale.Pool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.members) < 2*len(pools)+100 {
		return
	}
	maps.DeleteFunc(v.members, func(id string, _ *cloud.ListCache[cloudscale.Member]) bool {
		return !slices.ContainsFunc(pools, func(p cloudscale.Pool) bool { return p.UUID == id })
	})
}

func (v *inventory) membersOf(pool string) *cloud.ListCache[cloudscale.Member] {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.members[pool]
	if s == nil {
		s = cached(v.client.Members(pool).List, func(o *cloudscale.Member) string { return o.UUID })
		v.members[pool] = s
	}
	return s
}

// made notes a load balancer or a pool that we have just made, and that is empty.
func (v *inventory) madeLoadBalancer(o cloudscale.LoadBalancer) {
	v.loadBalancers.Put(o)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.born[o.UUID] = time.Now()
}

func (v *inventory) madePool(o cloudscale.Pool) {
	v.pools.Put(o)
	v.membersOf(o.UUID).Empty()
}

func (v *inventory) droppedLoadBalancer(id string) {
	v.loadBalancers.Drop(id)
	for _, p := range v.pools.Peek() {
		if p.LoadBalancer.UUID == id {
			v.droppedPool(p.UUID)
		}
	}
	for _, l := range v.listeners.Peek() {
		if l.LoadBalancer.UUID == id {
			v.listeners.Drop(l.UUID)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.born, id)
}

// droppedPool notes that a pool is gone, with its members and its monitor.
func (v *inventory) droppedPool(id string) {
	v.pools.Drop(id)
	for _, m := range v.monitors.Peek() {
		if m.Pool.UUID == id {
			v.monitors.Drop(m.UUID)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.members, id)
}

func (v *inventory) droppedMember(pool, id string) {
	v.membersOf(pool).Drop(id)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.disabled, id)
}

// disabledSince returns since when members are disabled, of those that we have
// disabled.
func (v *inventory) disabledSince() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.disabled)
}

// disable notes that a member was disabled just now.
func (v *inventory) disable(member string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disabled[member] = time.Now()
}

// forget everything: a write did not go as it should, so something is not as we
// think it is.
func (v *inventory) forget() {
	v.loadBalancers.Forget()
	v.pools.Forget()
	v.listeners.Forget()
	v.monitors.Forget()
	v.floatingIPs.Forget()
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.members)
	clear(v.born)
}
