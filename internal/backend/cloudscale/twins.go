package cloudscale

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// A load balancer may be made twice for one Service: the cloud did it long after it was
// asked, when another one was made already, by this process or by the next leader. Both
// have the Service's UID in a tag that only we write. The one that is used stays; one
// that has no listener has never been used, and goes.

// twins says whether all are certainly made by us for the Service.
func twins(s *lb.Service, all []cloudscale.LoadBalancer) bool {
	return len(all) > 1 && !slices.ContainsFunc(all, func(o cloudscale.LoadBalancer) bool { return o.Tags[tagUID] != string(s.UID) })
}

// chooseTwin returns the load balancer that stays, and those that go. There is a reason
// instead if several are in use: then a person has to say which.
func (b *Backend) chooseTwin(ctx context.Context, s *lb.Service, all []cloudscale.LoadBalancer, since time.Time) (found, error) {
	used := map[string]bool{}
	for _, o := range all {
		c, err := b.have.contents(ctx, o.UUID, since)
		if err != nil {
			return found{}, fmt.Errorf("read load balancer %s: %w", o.Name, err)
		}
		used[o.UUID] = len(c.listeners) > 0
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y cloudscale.LoadBalancer) int {
		return cmp.Or(trueFirst(used[x.UUID], used[y.UUID]), trueFirst(x.UUID == compat.UUID(s), y.UUID == compat.UUID(s)),
			x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.UUID, y.UUID))
	})
	if used[all[1].UUID] {
		return ambiguous(all), nil
	}
	return found{own: all[:1], surplus: all[1:]}, nil
}

// trueFirst puts what is true before what is not.
func trueFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	default:
		return 1
	}
}

// ambiguous is that several load balancers may be the Service's.
func ambiguous(all []cloudscale.LoadBalancer) found {
	var names []string
	for _, o := range all {
		names = append(names, fmt.Sprintf("%s (%s)", o.Name, o.UUID))
	}
	r := Reasons.With(LoadBalancerAmbiguous, prose.And(names))
	return found{reason: &r}
}

// clear removes what was made twice and never used.
func (p *planner) clear() {
	for _, o := range p.a.Surplus {
		p.add(lb.Step{Verb: lb.VerbDelete, Kind: kindLoadBalancer, Name: o.Name, ID: o.UUID, Part: "surplus " + o.UUID, Why: "it was made twice and is not used"})
	}
}
