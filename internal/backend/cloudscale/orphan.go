package cloudscale

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/lb"
)

// Orphan is a load balancer that was made for a Service of this cluster that no
// longer exists.
type Orphan struct {
	LoadBalancer cloudscale.LoadBalancer
	Service      string // namespace and name
	UID          types.UID
}

// Reason tells of an orphan.
func (o Orphan) Reason() lb.Reason {
	return lb.LoadBalancerOrphaned.With(o.LoadBalancer.Name, o.LoadBalancer.UUID, o.Service)
}

// Orphans are found by our tags. Those that cloudscale's own controller has left
// behind have none, and cannot be told from anybody else's. exists says whether
// there is a Service with that UID, of any type and class.
func (b *Backend) Orphans(ctx context.Context, exists func(types.UID) bool) ([]Orphan, error) {
	if b.cluster == "" {
		return nil, nil
	}
	all, err := b.have.loadBalancers.Since(ctx, time.Now(), time.Time{})
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	var out []Orphan
	for _, o := range all {
		uid := types.UID(o.Tags[tagUID])
		if o.Tags[tagCluster] == b.cluster && uid != "" && !exists(uid) {
			out = append(out, Orphan{LoadBalancer: o, Service: o.Tags[tagService], UID: uid})
		}
	}
	return out, nil
}

// Removal is the plan that deletes orphans. It is done on request only.
func Removal(orphans []Orphan) lb.Plan {
	var a Actual
	for _, o := range orphans {
		a.LoadBalancers = append(a.LoadBalancers, o.LoadBalancer)
	}
	return Plan(Desired{Gone: true}, a)
}
