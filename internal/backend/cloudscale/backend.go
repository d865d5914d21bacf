package cloudscale

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/lb"
)

// Options of a backend.
type Options struct {
	Client *cloudscale.Client
	// Servers of the project, shared with whoever else reads them.
	Servers *cloud.ListCache[cloudscale.Server]
	// Cluster is this cluster's name in the project. What is created is tagged
	// with it, or if it is empty with ClusterUID; orphans are only looked for if
	// either is known.
	Cluster string
	// ClusterUID is the UID of this cluster's namespace kube-system.
	ClusterUID string
	// AdoptFrom are clusters whose load balancers Services of this one may name. Those
	// of all others are never touched.
	AdoptFrom []string
	// Unclassed says that Services without a class are this backend's: one that
	// became another type had a load balancer by no other sign than its finalizer.
	Unclassed bool
}

// Backend makes load balancers what Services ask for. It is safe for concurrent
// use, except for calls with the same Service.
type Backend struct {
	client     *cloudscale.Client
	servers    *cloud.ListCache[cloudscale.Server]
	cluster    string // the name in tags
	clusterUID string
	adoptFrom  []string
	unclassed  bool
	have       *inventory

	// paced is set once the cloud refused a change because of the one before:
	// from then on a look is taken after each.
	paced atomic.Bool
	// singly is set once the cloud refused to change several fields at once.
	singly atomic.Bool
	// creating and changing are how long that takes for a load balancer.
	creating, changing *cloud.Pace

	mu    sync.Mutex
	memos map[types.UID]memo
}

// memo is what is remembered about a Service.
type memo struct {
	settled string    // what was wanted when all was as it should be
	told    string    // what was wanted when a change was last reported
	missing string    // nodes whose servers were not found
	mark    string    // that we wrote before we begin to make a load balancer
	created time.Time // when a load balancer may have been made, but the answer was lost
}

// New makes a backend.
func New(o Options) *Backend {
	return &Backend{client: o.Client, servers: o.Servers, cluster: cmp.Or(o.Cluster, o.ClusterUID), clusterUID: o.ClusterUID, adoptFrom: o.AdoptFrom, unclassed: o.Unclassed, have: newInventory(o.Client), creating: cloud.NewPace(firstLook, maxLook), changing: cloud.NewPace(firstTry, maxTry), memos: map[types.UID]memo{}}
}

// Sync takes one look at a Service and does what can be done now. An error is
// also reported in the outcome; without Again it is retried like any error.
func (b *Backend) Sync(ctx context.Context, w lb.Want) (lb.Outcome, error) {
	s := &w.Service
	switch {
	case w.Gone && !mayHaveLoadBalancer(s, b.unclassed):
		return never(s), nil
	case !w.Gone && !w.DryRun && !slices.Contains(s.Finalizers, lb.CleanupFinalizer):
		return b.kept(s, time.Now()), nil
	}
	seen, err := b.Observe(ctx, w)
	if err != nil {
		return failed(w, err), err
	}
	out := lb.Outcome{Plan: seen.Plan(), Tell: seen.Tell, Again: seen.again}
	if w.DryRun {
		dry(&out, seen)
		return out, nil
	}
	news := b.news(w, seen, out.Plan)
	result, err := b.apply(ctx, seen, out.Plan)
	out.Done = result.Done
	if result.Again > 0 && (out.Again == 0 || result.Again < out.Again) {
		out.Again = result.Again
	}
	b.remember(w, seen, result, err)
	if news != "" && result.Done > 0 {
		out.Tell = append(out.Tell, news.With(out.Plan))
	}
	if err != nil {
		f := failed(w, err)
		out.Reason, out.Condition, out.Marks.Annotations = f.Reason, f.Condition, b.annotations(seen, result)
		if f.Again > 0 {
			out.Again = f.Again
		}
		return out, err
	}
	b.conclude(&out, w, seen, result)
	return out, nil
}

// apply does a plan while nobody else of this process changes the load balancer.
func (b *Backend) apply(ctx context.Context, seen *Observation, p lb.Plan) (Result, error) {
	if own := seen.Actual.lb(); own != nil && !p.Empty() {
		unlock, err := b.client.Lock(ctx, own.UUID)
		if err != nil {
			return Result{}, err
		}
		defer unlock()
	}
	began := time.Now()
	r, err := b.Apply(ctx, p)
	r.again(b.goOn(seen.uid, began, r))
	return r, err
}

// goOn says when to go on with a plan that has to wait for the cloud, and learns
// how long that takes.
func (b *Backend) goOn(service string, began time.Time, r Result) time.Duration {
	switch now := time.Now(); {
	case r.Created != nil && r.Busy:
		return b.creating.Begin(r.Created.UUID, now)
	case r.Busy && r.Done == 0:
		return b.changing.Busy(service, now)
	case r.Busy:
		b.changing.Done(service, began)
		return b.changing.Begin(service, now)
	default:
		b.changing.Forget(service)
		return 0
	}
}

// Forget drops what is remembered about a Service that no longer exists.
func (b *Backend) Forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.memos, uid)
	b.changing.Forget(string(uid))
}
