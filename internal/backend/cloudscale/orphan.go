package cloudscale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Orphans are found by our tags. Those that cloudscale's own controller has left
// behind have none, and cannot be told from anybody else's. exists says whether
// there is a Service with that UID, of any type and class.
func (b *Backend) Orphans(ctx context.Context, exists lb.Exists) ([]lb.Orphan, error) {
	if b.cluster == "" {
		return nil, nil
	}
	all, err := b.have.loadBalancers.Since(ctx, time.Now(), time.Time{})
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	var out []lb.Orphan
	for _, o := range all {
		uid := types.UID(o.Tags[tagUID])
		namespace, name, _ := strings.Cut(o.Tags[tagService], "/")
		service := types.NamespacedName{Namespace: namespace, Name: name}
		if b.mine(o.Tags[tagCluster]) && uid != "" && !exists(service, uid) {
			out = append(out, lb.Orphan{ID: o.UUID, Service: service, UID: uid,
				Reason: lb.LoadBalancerOrphaned.With(o.Name, o.UUID, o.Tags[tagService])})
		}
	}
	return out, nil
}

// Remove deletes the load balancers of orphans.
func (b *Backend) Remove(ctx context.Context, orphans []lb.Orphan) (lb.Plan, error) {
	all, err := b.have.loadBalancers.Since(ctx, time.Now().Add(-trust), time.Time{})
	if err != nil {
		return lb.Plan{}, fmt.Errorf("look for orphans: %w", err)
	}
	var a Actual
	for _, o := range all {
		if slices.ContainsFunc(orphans, func(x lb.Orphan) bool { return x.ID == o.UUID }) {
			a.LoadBalancers = append(a.LoadBalancers, o)
		}
	}
	plan := Plan(Desired{Gone: true}, a)
	_, err = b.Apply(ctx, plan)
	return plan, err
}
