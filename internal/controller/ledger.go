package controller

import (
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// ledger is the allocator with a lock around it. Whenever one call changes what
// other Services have, it tells wake, so that their reconciles write it down.
type ledger struct {
	mu    sync.Mutex
	alloc *ipam.Allocator
	// wake gets the other Services whose verdicts changed. Called with mu held:
	// it must only queue.
	wake func([]types.NamespacedName)
	// contested is told of every address found with two holders, and the dialect of
	// its pool, "" if it has none. Called with mu held: it must only queue.
	contested func(ipam.Contest, lb.Dialect)
	// touched receives one value after pools or what they hold may have changed.
	touched chan struct{}
	// imported is closed once everything that is held is known.
	imported chan struct{}
}

func newLedger(wake func([]types.NamespacedName)) *ledger {
	return &ledger{
		alloc:     ipam.New(),
		wake:      wake,
		contested: func(ipam.Contest, lb.Dialect) {},
		touched:   make(chan struct{}, 1),
		imported:  make(chan struct{}),
	}
}

// do runs f with the allocator and passes on what it changed.
func (l *ledger) do(f func(*ipam.Allocator) []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if changed := f(l.alloc); len(changed) > 0 {
		l.wake(changed)
	}
	for _, c := range l.alloc.Contests() {
		l.contested(c, l.alloc.DialectOf(c.Address))
	}
	l.touch()
}

// isImported says whether everything that is held is known.
func (l *ledger) isImported() bool {
	select {
	case <-l.imported:
		return true
	default:
		return false
	}
}

// touch has the statuses of pools looked after; it never blocks.
func (l *ledger) touch() {
	select {
	case l.touched <- struct{}{}:
	default: // somebody will look anyway
	}
}

func (l *ledger) settle(r lb.Request, published []netip.Addr) (v lb.Verdict) {
	l.do(func(a *ipam.Allocator) (changed []types.NamespacedName) {
		v, changed = a.Settle(r, published)
		return changed
	})
	return v
}

// forget returns what the Service had, and whether it was known.
func (l *ledger) forget(service types.NamespacedName) (had lb.Verdict, known bool) {
	l.do(func(a *ipam.Allocator) []types.NamespacedName {
		had, known = a.Verdict(service)
		return a.Forget(service)
	})
	return had, known
}

// knows says whether the Service has been settled.
func (l *ledger) knows(service types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.alloc.Verdict(service)
	return known
}

func (l *ledger) setPools(pools []lb.Pool) {
	l.do(func(a *ipam.Allocator) []types.NamespacedName { return a.SetPools(pools) })
}

// ours says whether some of the addresses are in a pool.
func (l *ledger) ours(addresses []netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(addresses, l.alloc.InPool)
}

func (l *ledger) usage() []ipam.PoolUsage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alloc.Usage()
}

// only says whether there are pools, and all are of the dialect.
func (l *ledger) only(d lb.Dialect) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alloc.Only(d)
}

// used is how many addresses Services have.
func (l *ledger) used() (n int) {
	for _, u := range l.usage() {
		for _, f := range u.Families {
			n += f.Used
		}
	}
	return n
}
