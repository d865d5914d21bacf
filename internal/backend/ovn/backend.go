package ovn

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
)

// Place is where a Service is served. Names are those of the northbound database.
type Place struct {
	Router   string
	Switches []string
	Gateway  string // the router's port to the external network; "" is any
	// Addresses are the external ones that the Service has. Where its class has pools,
	// they are the verdict's. Former are others that it publishes and still has: they are
	// served until the status has changed.
	Addresses, Former []netip.Addr
	// TakeOver says that another controller may have given the Service these addresses:
	// rows that it made for the Service are taken over.
	TakeOver bool
	// Waits is why the Service does not have what it asks for; nil if it has, or will have
	// in a moment. With addresses, it is served at these meanwhile.
	Waits *lb.Reason
	// Unknown: it cannot be said yet where the Service is served. Everything stays as it is.
	Unknown bool
	// Elsewhere is why the Service cannot be served here. It is told by an event, and
	// nothing of the Service is touched.
	Elsewhere *lb.Reason
	// Tell has what else there is to say.
	Tell []lb.Reason
	// Plan is what was done to get addresses, or in a dry run what would be.
	Plan lb.Plan
	// Again is when to look again while there are no addresses; 0: when something has
	// changed.
	Again time.Duration
}

// Placer says where Services are served. It may be a backend.Runner, which runs beside the
// backend.
type Placer interface {
	// Place finds out where a Service is served, and does what is needed to get its
	// addresses, if this is not a dry run.
	Place(ctx context.Context, w *lb.Want) (Place, error)
	// Written says that rows of Services have changed; without names, that all rows are
	// known again.
	Written(services ...types.NamespacedName)
}

// Options of a backend.
type Options struct {
	DB     *ovn.DB
	Placer Placer
	// Dialect is the one that all Services are read in; "" if their class says which.
	Dialect lb.Dialect
}

// Backend makes Services real in OVN. It is safe for concurrent use, except for calls
// with the same Service.
type Backend struct {
	db      *ovn.DB
	placer  Placer
	dialect lb.Dialect

	mu      sync.Mutex
	pending map[types.UID]pending
	waiting map[types.UID]time.Time // since when other Services are in the way
	keys    map[types.UID]types.NamespacedName
}

// pending is a commit of a Service that is not published yet: northd has not confirmed it,
// or has just now.
type pending struct {
	cfg   int64
	since time.Time
}

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Holder   = (*Backend)(nil)
	_ backend.Speaker  = (*Backend)(nil)
	_ backend.Needs    = (*Backend)(nil)
	_ backend.Runner   = (*Backend)(nil)
	_ backend.Reaper   = (*Backend)(nil)
	_ backend.Vanisher = (*Backend)(nil)
)

// New makes a backend.
func New(o Options) *Backend {
	return &Backend{db: o.DB, placer: o.Placer, dialect: o.Dialect, pending: map[types.UID]pending{}, waiting: map[types.UID]time.Time{}, keys: map[types.UID]types.NamespacedName{}}
}

// Words are those of the dialect.
func (b *Backend) Words() lb.Dialect { return b.dialect }

// Needs endpoints: OVN leads to pods, not to nodes.
func (b *Backend) Needs() lb.Needs { return lb.Needs{Endpoints: true} }

// Held is what the status publishes; our condition proves it.
func (b *Backend) Held(s *lb.Service) lb.Held {
	h := lb.Held{Addresses: s.Published(), Evidence: lb.Reported}
	if h.Current = s.Attested(); h.Current && len(h.Addresses) > 0 {
		h.Evidence, h.Left = lb.Proven, true
	}
	return h
}

// Run keeps the connection to the database, and wakes Services that somebody else has
// changed there.
func (b *Backend) Run(ctx context.Context, wake func(...types.NamespacedName)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var err error
	if r, ok := b.placer.(backend.Runner); ok {
		running.Go(func() {
			defer stop()
			err = r.Run(ctx, wake)
		})
	}
	running.Go(func() { b.db.Run(ctx) })
	b.db.Watch(ctx, func(services ...string) {
		keys := make([]types.NamespacedName, len(services))
		for i, s := range services {
			keys[i] = keyOf(s)
		}
		if len(keys) == 0 {
			b.placer.Written()
			if left := b.owners(); len(left) > 0 {
				defer wake(left...)
			}
		}
		wake(keys...)
	}, func(strays ...string) {
		for _, s := range strays {
			b.placer.Written(keyOf(s))
		}
	})
	running.Wait()
	return err
}

// owners are all Services that have rows, be they served or not any more.
func (b *Backend) owners() (out []types.NamespacedName) {
	rows, err := b.db.Rows()
	if err != nil {
		return nil // when it is back, they are asked for again
	}
	for _, r := range rows {
		out = append(out, keyOf(r.Service))
	}
	return out
}

func keyOf(service string) types.NamespacedName {
	namespace, name, _ := strings.Cut(service, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Forget drops what is remembered about a Service. Its rows are of no concern here.
func (b *Backend) Forget(uid types.UID) {
	b.mu.Lock()
	key, known := b.keys[uid]
	delete(b.pending, uid)
	delete(b.waiting, uid)
	delete(b.keys, uid)
	again := slices.Contains(slices.Collect(maps.Values(b.keys)), key) // it was created again
	b.mu.Unlock()
	if known && !again {
		b.db.Forget(key.String())
	}
}

func (b *Backend) know(s *lb.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[s.UID] = s.Key
}

// Vanished removes the rows of a Service that no longer exists.
func (b *Backend) Vanished(ctx context.Context, key types.NamespacedName) error {
	_, err := b.clear(ctx, key)
	return err
}

// clear removes all rows of a Service, by its name. The placer hears of it also if there
// are none: they may have gone without a commit of ours that succeeded.
func (b *Backend) clear(ctx context.Context, key types.NamespacedName) (lb.Plan, error) {
	defer b.db.Forget(key.String())
	v, err := b.db.Look(&ovn.Service{Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return lb.Plan{}, err
	}
	if !v.Plan.Empty() {
		if _, err = b.db.Commit(ctx, key.String(), v.Plan); err != nil {
			return lb.Plan{}, err
		}
	}
	b.placer.Written(key)
	return v.Plan, nil
}

// Orphans are rows of this cluster whose Services no longer exist.
func (b *Backend) Orphans(_ context.Context, exists lb.Exists) ([]lb.Orphan, error) {
	rows, err := b.db.Rows()
	if err != nil {
		return nil, err
	}
	var out []lb.Orphan
	for _, r := range rows {
		if uid := types.UID(r.ServiceUID); !exists(keyOf(r.Service), uid) {
			out = append(out, lb.Orphan{ID: r.UUID, Service: keyOf(r.Service), UID: uid, Reason: Reasons.With(RowsOrphaned, r.Kind, r.Name, r.Service)})
		}
	}
	return out, nil
}

// Remove removes them, unless they have become another Service's meanwhile.
func (b *Backend) Remove(ctx context.Context, orphans []lb.Orphan) (lb.Plan, error) {
	rows, err := b.db.Rows()
	if err != nil {
		return lb.Plan{}, err
	}
	uid := map[string]types.UID{}
	for _, r := range rows {
		uid[r.UUID] = types.UID(r.ServiceUID)
	}
	var ids []string
	var services []types.NamespacedName
	for _, o := range orphans {
		if has, there := uid[o.ID]; there && has == o.UID {
			ids, services = append(ids, o.ID), append(services, o.Service)
		}
	}
	plan, err := b.db.Removal(ids...)
	if err != nil || plan.Empty() {
		return plan, err
	}
	if _, err = b.db.Commit(ctx, "", plan); err == nil {
		b.placer.Written(services...)
	}
	return plan, err
}
