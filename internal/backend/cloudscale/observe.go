package cloudscale

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

const (
	// recent is how old the state of members may be when some of them are to go.
	recent = time.Second
	// missingLook is when to look again for the server of a node: a list of
	// servers that is older is not used then.
	missingLook = 2 * time.Second
	// lostCreate is how long a load balancer whose making was not answered is
	// looked for before another one is made.
	lostCreate = 30 * time.Second
)

// Actual is what the cloud has for one Service.
type Actual struct {
	Now time.Time
	// LoadBalancers are those that are the Service's: one, unless all shall go.
	LoadBalancers []cloudscale.LoadBalancer
	Surplus       []cloudscale.LoadBalancer // made twice for the Service, and not used
	Pools         []cloudscale.Pool
	Listeners     []cloudscale.Listener
	Monitors      []cloudscale.HealthMonitor
	Members       map[string][]cloudscale.Member // by pool
	Disabled      map[string]time.Time           // by member: since when it gets no new connections, if that was our doing
	FloatingIPs   []cloudscale.FloatingIP        // all of the project
}

// lb is the Service's load balancer, or nil.
func (a *Actual) lb() *cloudscale.LoadBalancer {
	if len(a.LoadBalancers) == 0 {
		return nil
	}
	return &a.LoadBalancers[0]
}

// Observation is what is wanted and what there is, at one time.
type Observation struct {
	Desired Desired
	Actual  Actual
	Version compat.Version
	// Blocked is why the Service cannot be served as it asks to; what can be
	// done in spite of it is in the plan.
	Blocked *lb.Reason
	// Tell has further reasons to report.
	Tell []lb.Reason

	uid   string // of the Service
	busy  bool   // the load balancer is being changed: there is no plan yet
	again time.Duration
}

// Plan is what turns what there is into what is wanted.
func (o *Observation) Plan() lb.Plan {
	if o.busy {
		return lb.Plan{}
	}
	return Plan(o.Desired, o.Actual)
}

// Observe reads all there is about a Service. If anything cannot be read, there
// is no observation: what is not seen is not absent.
func (b *Backend) Observe(ctx context.Context, w lb.Want) (*Observation, error) {
	now := time.Now()
	f, err := b.lookUp(ctx, w, now)
	if err != nil {
		return nil, err
	}
	if len(f.own) > 1 && !w.Gone {
		if f, err = b.chooseTwin(ctx, &w.Service, f.own, now.Add(-trust)); err != nil {
			return nil, err
		}
	}
	seen := &Observation{uid: string(w.Service.UID), Actual: Actual{Now: now, LoadBalancers: f.own, Surplus: f.surplus}}
	if w.Gone {
		seen.Desired, seen.Blocked = Desired{Gone: true}, f.reason
		if len(f.own) == 0 {
			b.awaitLostCreate(seen, w)
		}
		return seen, nil
	}
	own := seen.Actual.lb()
	seen.Version = version(&w.Service, own)
	settings, problems := compat.Read(&w.Service, seen.Version)
	nodes, err := b.resolveTargets(ctx, w, &settings)
	if err != nil {
		return nil, err
	}
	seen.again = b.awaitServers(w, nodes)
	seen.Desired, seen.Blocked, seen.Tell = decide(w, nodes, settings, problems)
	seen.Desired.Tags = b.tags(&w.Service, seen.Version)
	if f.reason != nil {
		seen.Blocked, seen.Desired.Nothing = f.reason, true
		return seen, nil
	}
	if own == nil {
		b.mayCreate(seen, w, nodes)
		return seen, b.readFloatingIPs(ctx, seen, now.Add(-trust))
	}
	if own.Status == cloudscale.Changing {
		return seen, b.await(ctx, seen, own)
	}
	return seen, b.fill(ctx, seen, now.Add(-trust))
}

// lookUp finds the Service's load balancer. That there is none is only believed
// of a list that was read just now.
func (b *Backend) lookUp(ctx context.Context, w lb.Want, now time.Time) (found, error) {
	for _, since := range []time.Time{now.Add(-trust), now} {
		all, err := b.have.loadBalancers.Since(ctx, since, time.Time{})
		if err != nil {
			return found{}, fmt.Errorf("look for the load balancer: %w", err)
		}
		if f := b.find(w, all); len(f.own) > 0 || f.reason != nil || !since.Before(now) {
			return f, nil
		}
	}
	return found{}, nil
}

// resolveTargets finds the servers of the nodes. If one is missing, it reads the
// list again, because the server may be new.
func (b *Backend) resolveTargets(ctx context.Context, w lb.Want, s *compat.Settings) (targets, error) {
	servers, err := b.servers.Within(ctx, cloud.LookAge)
	if err != nil {
		return targets{}, fmt.Errorf("list servers: %w", err)
	}
	f := resolveMembers(w.Nodes, servers, s)
	if f.complete() {
		return f, nil
	}
	if servers, err = b.servers.Within(ctx, cloud.MissAge); err != nil {
		return targets{}, fmt.Errorf("list servers: %w", err)
	}
	return resolveMembers(w.Nodes, servers, s), nil
}

// awaitServers says when to look again for servers that are missing: the list in
// which they are not may be older than they are. What the next one does not have
// either does not exist.
func (b *Backend) awaitServers(w lb.Want, f targets) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, missing := b.memos[w.Service.UID], ""
	if !f.complete() {
		missing = strings.Join(f.Skipped, ";")
	}
	known := m.missing == missing
	m.missing = missing
	b.memos[w.Service.UID] = m
	if known {
		return 0
	}
	return missingLook
}

// mayCreate says whether a load balancer can be made.
func (b *Backend) mayCreate(seen *Observation, w lb.Want, nodes targets) {
	zone, unplaced := place(&seen.Desired, nodes)
	seen.Desired.ZoneOfNodes = zone
	if seen.Blocked == nil {
		seen.Blocked = unplaced
	}
	if seen.Desired.KeepMembers {
		r := lb.NodesUnknown.With(strings.Join(nodes.Skipped, "; "))
		seen.Blocked = &r
	}
	if seen.Blocked != nil {
		seen.Desired.Nothing = true
		return
	}
	b.awaitLostCreate(seen, w)
}

// awaitLostCreate waits for a load balancer that may still appear: the answer to its
// making was lost, or another process, which led before, began to make it.
func (b *Backend) awaitLostCreate(seen *Observation, w lb.Want) {
	b.mu.Lock()
	m := b.memos[w.Service.UID]
	b.mu.Unlock()
	lost := m.created
	if mark := w.Service.Annotations[compat.AnnotationCreating]; mark != "" && mark != m.mark && lost.IsZero() {
		lost, _ = time.Parse(time.RFC3339, mark) // one that is none is long ago
	}
	// A time in the future is nobody's but a tenant's.
	if passed := seen.Actual.Now.Sub(lost); !lost.IsZero() && passed < lostCreate && passed > -lostCreate {
		seen.busy, seen.again = true, min(lostCreate-passed, maxLook)
	}
}

// await looks whether a load balancer that was being changed still is.
func (b *Backend) await(ctx context.Context, seen *Observation, own *cloudscale.LoadBalancer) error {
	now, err := b.client.LoadBalancers.Get(ctx, own.UUID)
	switch {
	case cloud.IsNotFound(err):
		b.have.forget() // somebody has deleted it
		b.creating.Forget(own.UUID)
		seen.busy, seen.again = true, firstLook
		return nil
	case err != nil:
		return fmt.Errorf("read load balancer %s: %w", own.Name, err)
	}
	b.have.loadBalancers.Put(*now)
	seen.Actual.LoadBalancers = []cloudscale.LoadBalancer{*now}
	if now.Status == cloudscale.Changing {
		seen.busy, seen.again = true, b.creating.Busy(own.UUID, time.Now())
		return nil
	}
	b.creating.Done(own.UUID, time.Now())
	return b.fill(ctx, seen, seen.Actual.Now.Add(-trust))
}

// fill reads what is in the load balancer.
func (b *Backend) fill(ctx context.Context, seen *Observation, since time.Time) error {
	a := &seen.Actual
	c, err := b.have.contents(ctx, a.lb().UUID, since)
	if err != nil {
		return fmt.Errorf("read load balancer %s: %w", a.lb().Name, err)
	}
	a.Pools, a.Listeners, a.Monitors, a.Members = c.pools, c.listeners, c.monitors, c.members
	if err := b.readFloatingIPs(ctx, seen, since); err != nil {
		return err
	}
	a.Disabled = b.have.disabledSince()
	// Whether a member may go depends on how the others are at this moment.
	for _, pool := range retiring(seen.Plan()) {
		if a.Members[pool], err = b.have.membersOf(pool).Since(ctx, a.Now.Add(-recent), time.Time{}); err != nil {
			return fmt.Errorf("list members: %w", err)
		}
	}
	return nil
}

// readFloatingIPs if the Service asks for some.
func (b *Backend) readFloatingIPs(ctx context.Context, seen *Observation, since time.Time) (err error) {
	if len(seen.Desired.FloatingIPs) == 0 || seen.Desired.Nothing || seen.busy {
		return nil
	}
	if seen.Actual.FloatingIPs, err = b.have.floatingIPs.Since(ctx, since, time.Time{}); err != nil {
		return fmt.Errorf("list floating IPs: %w", err)
	}
	return nil
}

// retiring returns the pools of which members are to go.
func retiring(p lb.Plan) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range p.Steps {
		if s.Kind == kindMember && (s.Verb == lb.VerbUpdate || s.Impact > lb.ImpactNone) && !seen[s.In] {
			seen[s.In] = true
			out = append(out, s.In)
		}
	}
	return out
}
