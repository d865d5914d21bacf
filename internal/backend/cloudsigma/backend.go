package cloudsigma

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Options of a backend.
type Options struct {
	Client *cloudsigma.Client
	// Cluster is this cluster's name in the account. It says whose an address is, and
	// must be another one in each cluster.
	Cluster string
	// Unclassed says that Services without a class are this backend's: one that became
	// another type had addresses by no other sign than its finalizer.
	Unclassed bool
	Log       *slog.Logger

	// Pods carry addresses where nodes have no agents; nil where agents do. They run
	// PodImage, and PodInterface carries the addresses; "" is the primary one.
	Pods                   Pods
	PodImage, PodInterface string
	// OldPod returns the node of a pod that another controller has left, by its name; ""
	// if there is none. It is asked where agents carry addresses; nil: there are none.
	OldPod func(ctx context.Context, name string) (node string, err error)
}

// Backend gives Services addresses of an account. It is safe for concurrent use,
// except for calls with the same Service.
type Backend struct {
	client    *cloudsigma.Client
	cluster   string
	unclassed bool
	log       *slog.Logger

	pods                   Pods // nil where agents carry addresses
	podImage, podInterface string
	oldPod                 func(ctx context.Context, name string) (string, error)

	locks cloud.Locks // of addresses

	mu    sync.Mutex
	memos map[types.UID]*memo
	// chosen are the nodes that addresses were placed on, so that Services which are
	// placed at the same time see each other.
	chosen map[netip.Addr]string
	// attached are addresses that may have a card because of us: it was attached, or the
	// tags say that a process before this one was about to.
	attached map[netip.Addr]bool
	// settling is until when an address stays on the node of an old pod.
	settling map[netip.Addr]time.Time
	// warned of what is listed as an address and is none.
	warned map[string]bool
	// began is when nodes were first looked at, and agents are those that were seen with
	// an agent since.
	began  time.Time
	agents map[string]bool
}

// memo is what is remembered about a Service.
type memo struct {
	key   types.NamespacedName
	wants []netip.Addr
	known bool // it was looked at
	// contested is since when another cluster has tagged an address too.
	contested time.Time
	// failures is how often a card could not be changed, one after the other.
	failures int
}

// New makes a backend.
func New(o Options) *Backend {
	return &Backend{client: o.Client, cluster: o.Cluster, unclassed: o.Unclassed, log: o.Log,
		pods: o.Pods, podImage: o.PodImage, podInterface: o.PodInterface, oldPod: o.OldPod,
		memos: map[types.UID]*memo{}, chosen: map[netip.Addr]string{}, attached: map[netip.Addr]bool{}, settling: map[netip.Addr]time.Time{}, warned: map[string]bool{}, agents: map[string]bool{}}
}

// Sync takes one look at a Service and does what can be done now. Whatever our
// condition says, it names the addresses that the Service keeps: they are proven by it.
func (b *Backend) Sync(ctx context.Context, w lb.Want) (lb.Outcome, error) {
	out, err := b.sync(ctx, w)
	if out.Condition == lb.ConditionSays {
		out.Unannounced = w.Unannounced
		if _, ours := Reasons[out.Reason.Code]; (ours || err != nil) && !w.Gone {
			out.Reason = out.Reason.Keeping(w.Service.Published())
		}
	}
	return out, err
}

func (b *Backend) sync(ctx context.Context, w lb.Want) (lb.Outcome, error) {
	s := &w.Service
	kept := slices.Contains(s.Finalizers, lb.CleanupFinalizer)
	if !w.DryRun {
		b.want(&w)
	}
	switch {
	case w.Gone && !b.mayHave(s):
		return never(s), nil
	case !w.Gone && !kept && !w.DryRun && len(w.Verdict.Addresses) > 0:
		return lb.Outcome{Keep: true, Marks: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}}}, nil
	}
	if err := b.recall(ctx, &w); err != nil {
		return failed(&w, err), err
	}
	seen, unlock, err := b.look(ctx, &w)
	if err != nil {
		return failed(&w, err), err
	}
	defer unlock()
	if w.Gone && seen.elsewhere() {
		out := failed(&w, errElsewhere)
		out.Reason, out.Again = Reasons.With(AccessDenied, errElsewhere), maxRetry
		return out, nil
	}
	out := lb.Outcome{Plan: Plan(&seen.desired, seen.account), Tell: seen.tell, Yields: seen.yields, Again: seen.again}
	if w.DryRun {
		dry(&out, &w, seen)
		return out, nil
	}
	var again time.Duration
	if err = b.drop(ctx, seen); err == nil {
		out.Done, err = b.apply(ctx, &w, seen, &out)
	}
	if err == nil {
		again, err = b.carry(ctx, s, seen)
	}
	if wrong := b.conclude(&out, &w, seen, err); wrong != nil {
		return out, wrong
	}
	if again > 0 && (out.Again == 0 || again < out.Again) {
		out.Again = again
	}
	return out, nil
}

// look reads what there is while nobody else of this process changes the addresses
// that concern a Service.
func (b *Backend) look(ctx context.Context, w *lb.Want) (*observation, func(), error) {
	since := time.Now().Add(-trust)
	a, err := b.read(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(w.Nodes, func(n lb.Node) bool { s, _ := serverOf(&n, a); return s == nil }) {
		// It may be newer than the list.
		if _, err := b.client.Servers.Within(ctx, cloud.LookAge); err != nil {
			return nil, nil, err
		}
	}
	b.mu.Lock()
	concerned := slices.DeleteFunc(b.concerned(w, a), func(addr netip.Addr) bool { return b.unclaimed(w, a, addr) && len(b.holders(addr, w)) > 0 })
	b.mu.Unlock()
	unlock, err := b.lock(ctx, concerned)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(concerned, func(addr netip.Addr) bool { return len(a.others(addr, b.cluster)) > 0 }) {
		// What another cluster has on it decides which tags are ours to remove.
		b.client.Tags.Forget()
	}
	if a, err = b.read(ctx, since); err != nil {
		unlock()
		return nil, nil, err
	}
	return b.observe(w, a), unlock, nil
}

func (b *Backend) lock(ctx context.Context, addresses []netip.Addr) (func(), error) {
	var held []func()
	unlock := func() {
		for _, u := range held {
			u()
		}
	}
	for _, a := range addresses { // sorted: nobody waits for another in a ring
		u, err := b.locks.Lock(ctx, a.String())
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, u)
	}
	return unlock, nil
}

// concerned are the addresses that a Service has, wants, or has claimed, and those
// that this cluster has claimed for no Service, sorted.
func (b *Backend) concerned(w *lb.Want, a *account) []netip.Addr {
	mine := compat.ClusterTag(b.cluster)
	out := slices.Concat(w.Verdict.Addresses, w.Service.Published(), a.tagged(mine, compat.ServiceTag(w.Service.Key)))
	for _, addr := range a.tagged(mine, mine) {
		if !a.served(addr) {
			out = append(out, addr)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// want notes what a Service wants, for others to see.
func (b *Backend) want(w *lb.Want) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.memos[w.Service.UID]
	if m == nil {
		m = &memo{key: w.Service.Key}
		b.memos[w.Service.UID] = m
	}
	if m.wants = w.Verdict.Addresses; w.Gone {
		m.wants = nil
	}
}

// Forget drops what is remembered about a Service that no longer exists.
func (b *Backend) Forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.memos, uid)
}

// errElsewhere is why a deletion waits.
var errElsewhere = errors.New("neither the nodes' servers nor the Service's addresses are in the account; is it another one?")

// errContested ends a look: another cluster has claimed an address at the same time.
var errContested = errors.New("another cluster has claimed the address at the same time")
