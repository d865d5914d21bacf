package cloudscale

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/lb"
)

// Result is what was done of a plan.
type Result struct {
	Done int
	// Busy: the load balancer is being changed, and the rest has to wait for that.
	Busy bool
	// Again is when something is left to be done whose time has not come; 0 if
	// there is nothing.
	Again time.Duration
	// Created is the load balancer, if the plan made it.
	Created *cloudscale.LoadBalancer
	// Unknown: the answer to the making of a load balancer was lost.
	Unknown bool
}

// again takes the earlier of two times.
func (r *Result) again(d time.Duration) {
	if d > 0 && (r.Again == 0 || d < r.Again) {
		r.Again = d
	}
}

// Apply does the steps of a plan in their order, as far as they can be done now.
// It never waits for the cloud: what is left is in the plan of the next look.
//
// A step that the cloud does not accept ends its part; other parts go on, but
// nothing is cleaned up. Any other failure ends all.
func (b *Backend) Apply(ctx context.Context, plan lb.Plan) (Result, error) {
	r := Result{}
	run := runner{b: b, ids: map[string]string{}}
	failures := map[string]error{}
	var first error
	for _, s := range plan.Steps {
		if s.Verb == lb.VerbRefuse {
			continue
		}
		if s.Later > 0 {
			r.again(s.Later)
			continue
		}
		if _, ended := failures[s.Part]; ended || s.Part == "" && len(failures) > 0 || !run.resolve(&s) {
			continue
		}
		if r.Done > 0 && b.paced.Load() && s.Kind != kindFloatingIP {
			r.Busy = true
			return r, first
		}
		err := run.do(ctx, &s)
		switch {
		case err == nil:
			r.Done++
		case cloud.IsBusy(err), errors.Is(err, errMore):
			if r.Done > 0 {
				b.paced.Store(true)
			}
			r.Busy = true
			return r, first
		case cloud.IsInvalid(err):
			b.have.forget()
			err = fmt.Errorf("%s: %w", verbed(&s), err)
			failures[s.Part] = err
			if first == nil {
				first = err
			}
		default:
			b.have.forget()
			r.Unknown = s.Kind == kindLoadBalancer && s.Verb == lb.VerbCreate && cloud.IsOutcomeUnknown(err)
			return r, fmt.Errorf("%s: %w", verbed(&s), err)
		}
		if r.Created = run.created; r.Created != nil && r.Created.Status == cloudscale.Changing {
			r.Busy = true
			return r, first
		}
	}
	return r, first
}

// verbed is a step without its details.
func verbed(s *lb.Step) string { return string(s.Verb) + " " + s.Key() }

// runner does steps, and knows what they made.
type runner struct {
	b       *Backend
	ids     map[string]string // of what was made, by the step's key
	created *cloudscale.LoadBalancer
}

// resolve fills in the IDs of what earlier steps have made. If one has not, the
// step cannot be done.
func (r *runner) resolve(s *lb.Step) bool {
	for _, ref := range s.Refs {
		id := r.ids[ref.To]
		if id == "" {
			return false
		}
		switch body := s.Body.(type) {
		case cloudscale.NewPool:
			body.LoadBalancer = id
			s.Body = body
		case cloudscale.NewListener:
			body.Pool = id
			s.Body = body
		case cloudscale.NewHealthMonitor:
			body.Pool = id
			s.Body = body
		default: // members and floating IPs say it in the path or beside the body
			s.In = id
		}
	}
	return true
}

// do does one step, and notes in the inventory what it did.
func (r *runner) do(ctx context.Context, s *lb.Step) error {
	c, have := r.b.client, r.b.have
	switch s.Kind {
	case kindLoadBalancer:
		return r.loadBalancer(ctx, s)
	case kindPool:
		return write(ctx, r.b, c.Pools, have.pools, s, r.ids, steps[cloudscale.Pool, cloudscale.PoolPatch]{
			made: have.madePool, dropped: have.droppedPool,
			patch: func(o *cloudscale.Pool, p cloudscale.PoolPatch) { set(&o.Name, p.Name); set(&o.Tags, p.Tags) },
		})
	case kindListener:
		return write(ctx, r.b, c.Listeners, have.listeners, s, r.ids, steps[cloudscale.Listener, cloudscale.ListenerPatch]{patch: patchListener})
	case kindMonitor:
		return write(ctx, r.b, c.HealthMonitors, have.monitors, s, r.ids, steps[cloudscale.HealthMonitor, cloudscale.HealthMonitorPatch]{patch: patchMonitor})
	case kindMember:
		return write(ctx, r.b, c.Members(s.In), have.membersOf(s.In), s, r.ids, steps[cloudscale.Member, cloudscale.MemberPatch]{
			dropped: func(id string) { have.droppedMember(s.In, id) },
			patch: func(o *cloudscale.Member, p cloudscale.MemberPatch) {
				set(&o.Name, p.Name)
				set(&o.Enabled, p.Enabled)
				set(&o.Tags, p.Tags)
				if !o.Enabled {
					have.disable(o.UUID)
				}
			},
		})
	case kindFloatingIP:
		network := s.Body.(netip.Prefix)
		if err := c.FloatingIPs.Assign(ctx, network, s.In); err != nil {
			return err
		}
		have.floatingIPs.Edit(network.String(), func(f *cloudscale.FloatingIP) {
			f.Server, f.LoadBalancer = nil, &cloudscale.Ref{UUID: s.In}
		})
		return nil
	default:
		return fmt.Errorf("%s: unknown kind", s.Kind)
	}
}

func (r *runner) loadBalancer(ctx context.Context, s *lb.Step) error {
	have := r.b.have
	return write(ctx, r.b, r.b.client.LoadBalancers, have.loadBalancers, s, r.ids, steps[cloudscale.LoadBalancer, cloudscale.LoadBalancerPatch]{
		made: func(o cloudscale.LoadBalancer) {
			have.madeLoadBalancer(o)
			r.created = &o
		},
		dropped: have.droppedLoadBalancer,
		patch: func(o *cloudscale.LoadBalancer, p cloudscale.LoadBalancerPatch) {
			set(&o.Name, p.Name)
			set(&o.Tags, p.Tags)
		},
	})
}

// steps are what the inventory has to know of the steps on one kind.
type steps[T, P any] struct {
	made    func(T)
	dropped func(id string)
	patch   func(*T, P)
}

// write does a step on an object of any kind. What is to be deleted and is not
// there is deleted.
func write[T, N, P any](ctx context.Context, b *Backend, c cloudscale.Collection[T, N, P], on *cloud.ListCache[T], s *lb.Step, ids map[string]string, k steps[T, P]) error {
	switch body := s.Body.(type) {
	case N:
		o, err := c.Create(ctx, body)
		if err != nil {
			return err
		}
		ids[s.Key()] = on.ID(o)
		if k.made != nil {
			k.made(*o)
		} else {
			on.Put(*o)
		}
	case P:
		return patch(ctx, b, c, s.ID, body, func(done P) { on.Edit(s.ID, func(o *T) { k.patch(o, done) }) })
	default:
		if err := c.Delete(ctx, s.ID); err != nil && !cloud.IsNotFound(err) {
			return err
		}
		if k.dropped != nil {
			k.dropped(s.ID)
		} else {
			on.Drop(s.ID)
		}
	}
	return nil
}

// errMore is a step of which something is left for the next look.
var errMore = errors.New("resources remain")

// patch changes fields of an object: all at once or, if the cloud does not accept
// that, one after the other. It says of servers that only one attribute can be
// changed at a time; nobody knows about load balancers.
func patch[T, N, P any](ctx context.Context, b *Backend, c cloudscale.Collection[T, N, P], id string, body P, done func(P)) error {
	each := fieldsOf(body)
	if len(each) > 1 && !b.singly.Load() {
		err := c.Patch(ctx, id, body)
		if !cloud.IsInvalid(err) {
			if err == nil {
				done(body)
			}
			return err
		}
		b.singly.Store(true)
	}
	for i, one := range each {
		if i > 0 && b.paced.Load() {
			return errMore
		}
		if err := c.Patch(ctx, id, one); err != nil {
			return err
		}
		done(one)
	}
	return nil
}

// fieldsOf returns a patch of one field for each that is set. All fields of
// patches are pointers.
func fieldsOf[P any](body P) []P {
	var out []P
	from := reflect.ValueOf(body)
	for i := range from.NumField() {
		if !from.Field(i).IsNil() {
			var one P
			reflect.ValueOf(&one).Elem().Field(i).Set(from.Field(i))
			out = append(out, one)
		}
	}
	return out
}

// set is what a patch does to a field.
func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func patchListener(o *cloudscale.Listener, p cloudscale.ListenerPatch) {
	set(&o.Name, p.Name)
	set(&o.TimeoutClientDataMS, p.TimeoutClientDataMS)
	set(&o.TimeoutMemberConnectMS, p.TimeoutMemberConnectMS)
	set(&o.TimeoutMemberDataMS, p.TimeoutMemberDataMS)
	set(&o.Tags, p.Tags)
	if p.AllowedCIDRs != nil {
		o.AllowedCIDRs = *p.AllowedCIDRs
	}
}

func patchMonitor(o *cloudscale.HealthMonitor, p cloudscale.HealthMonitorPatch) {
	set(&o.DelayS, p.DelayS)
	set(&o.TimeoutS, p.TimeoutS)
	set(&o.UpThreshold, p.UpThreshold)
	set(&o.DownThreshold, p.DownThreshold)
	set(&o.Tags, p.Tags)
	if h := p.HTTP; h != nil {
		check := cloudscale.HTTPCheck{ExpectedCodes: h.ExpectedCodes, Method: h.Method, URLPath: h.URLPath, Host: h.Host}
		if o.HTTP != nil {
			check.Version = o.HTTP.Version
		}
		o.HTTP = &check
	}
}
