package agent

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/write"
)

// reportsTimeout is how long reading may take. Taking over a lease waits for it.
const reportsTimeout = 300 * time.Millisecond

// reports reads what the agents of all nodes say about leases, when one is to be taken
// over. Nobody watches that: 200 agents would each hear of every change of any of them.
type reports struct {
	cluster client.Reader // the API server, not a cache
	inbox   *inbox
	asked   chan struct{}
}

func newReports(cluster client.Reader, i *inbox) *reports {
	return &reports{cluster: cluster, inbox: i, asked: make(chan struct{}, 1)}
}

// leaseReports are the valid leases, as asked for at that time; nil if the API server
// did not answer.
type leaseReports struct {
	asked  time.Time
	leases map[v1alpha1.LeaseOf]v1alpha1.Lease
}

func (r *reports) read(ctx context.Context) (map[v1alpha1.LeaseOf]v1alpha1.Lease, error) {
	var list v1alpha1.AgentList
	if err := r.cluster.List(ctx, &list); err != nil {
		return nil, err
	}
	return v1alpha1.LatestLeases(list.Items), nil
}

// run reads whenever it is asked to, until ctx ends.
func (r *reports) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		}
		now := time.Now()
		short, cancel := context.WithTimeout(ctx, reportsTimeout)
		leases, _ := r.read(short) // what is known counts if this fails
		cancel()
		r.inbox.add(func(c *changes) { c.leases = &leaseReports{now, leases} })
	}
}

// followReports reads what all agents report about leases now, and again when a lease
// is to be taken.
func (a *agent) followReports(cluster client.Reader) {
	a.reports = newReports(cluster, a.inbox)
	ctx, cancel := context.WithTimeout(a.background, reportsTimeout)
	defer cancel()
	if leases, err := a.reports.read(ctx); err == nil {
		a.leases.SetReported(leases, time.Now())
	}
	a.running.Go(func() { a.reports.run(a.background) })
}

// ReadReports has the reports of all agents read; false if they cannot be.
func (a leaseHost) ReadReports() bool {
	if a.reports == nil {
		return false
	}
	write.Wake(a.reports.asked)
	return true
}
