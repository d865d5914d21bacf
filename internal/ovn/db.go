package ovn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
)

// Database is the name of the northbound database.
const Database = "OVN_Northbound"

// ErrUnavailable says that the database cannot be used now. The text says why.
var ErrUnavailable = ovsdb.ErrUnavailable

// Options of a DB.
type Options struct {
	// Cluster says which rows are ours. It must be another one for each Kubernetes cluster
	// that uses the database.
	Cluster   string
	Endpoints []ovsdb.Endpoint
	TLS       ovsdb.TLSFiles
	Log       *slog.Logger
	// Registry gets the metrics; nil: there are none.
	Registry prometheus.Registerer
}

// DB is the northbound database. It is safe for concurrent use, except for calls for the
// same Service.
type DB struct {
	client  *ovsdb.Client
	cluster string
	log     *slog.Logger
	metrics *metrics
	jobs    chan job
	woken   chan struct{} // has one if there is news for Watch

	mu        sync.Mutex
	schema    ovsdb.Schema
	replica   *replica // nil while there is no connection
	lost      error    // why there is none
	lostAt    time.Time
	interests interests
	news      news
}

// New makes a DB. It connects when it runs.
func New(o Options) (*DB, error) {
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	d := &DB{cluster: o.Cluster, log: o.Log, metrics: m, jobs: make(chan job), woken: make(chan struct{}, 1),
		lost: errors.New("not connected yet"), lostAt: time.Now(), interests: newInterests(), news: newNews()}
	d.client = ovsdb.NewClient(ovsdb.Options{Database: Database, Endpoints: o.Endpoints, TLS: o.TLS, Handler: (*handler)(d), Log: o.Log})
	return d, nil
}

// Run keeps the copy of the database, and commits, until ctx ends.
func (d *DB) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { d.write(ctx) })
	d.client.Run(ctx)
	running.Wait()
}

// Look says how a Service stands. From then on, changes that concern it are watched.
func (d *DB) Look(s *Service) (*View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.interests.of(s)
	if d.replica == nil {
		return nil, d.unavailable()
	}
	v := Examine(s, d.replica.observe(s))
	in.standing, in.blocked = v.standing(), v.Blocked()
	if v.Plan.Empty() {
		in.settled = !in.blocked
	} else if in.settled {
		v.Drift = true
		d.metrics.repairs.Inc()
		in.settled = false
	}
	return v, nil
}

// Peek is Look without a trace.
func (d *DB) Peek(s *Service) (*View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	return Examine(s, d.replica.observe(s)), nil
}

func (d *DB) unavailable() error {
	if why := d.client.Err(); why != nil { // it knows of attempts since
		return fmt.Errorf("%w: %w", ErrUnavailable, why)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, d.lost)
}

// Away is how long there has been no connection; 0 if there is one.
func (d *DB) Away() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica != nil {
		return 0
	}
	return max(time.Since(d.lostAt), 1)
}

// Forget ends the watch for a Service, by namespace/name.
func (d *DB) Forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.interests.forget(key)
	delete(d.news.waiting, key)
}

// Cfg is nb_cfg of all that is known: when northd has reached it, it has done its part for
// every row that a look has seen.
func (d *DB) Cfg() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return 0
	}
	return d.replica.nbCfg
}

// Programmed says whether northd has done its part for a commit.
func (d *DB) Programmed(cfg int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replica != nil && d.replica.sbCfg >= cfg
}

// Await wakes a Service when northd has done its part for a commit.
func (d *DB) Await(key string, cfg int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news.waiting[key] = cfg; d.replica != nil && d.replica.sbCfg >= cfg {
		d.announce()
	}
}

// Owned is a row of this cluster.
type Owned struct{ Kind, UUID, Name, Service, ServiceUID string }

// Rows are all of this cluster, sorted by UUID.
func (d *DB) Rows() ([]Owned, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	var out []Owned
	for service, ids := range d.replica.byOwner {
		for id := range ids {
			l := d.replica.balancers[id]
			out = append(out, Owned{kindBalancer, id, l.Name, service, l.ExternalIDs[KeyServiceUID]})
		}
	}
	for service, ids := range d.replica.filters.byOwner {
		for id := range ids {
			g := d.replica.filters.groups[id]
			out = append(out, Owned{kindFilter, id, g.name, service, g.ids[KeyServiceUID]})
		}
	}
	slices.SortFunc(out, func(a, b Owned) int { return strings.Compare(a.UUID, b.UUID) })
	return out, nil
}

// Removal is the plan that removes rows of this cluster, and no others, if they are still
// the same Services' when it is committed.
func (d *DB) Removal(uuids ...string) (lb.Plan, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return lb.Plan{}, d.unavailable()
	}
	v := &View{}
	for _, id := range uuids {
		if l := d.replica.balancers[id]; l != nil && l.owner(d.cluster) != "" {
			v.remove(l.clone(), "")
			last := &v.Plan.Steps[len(v.Plan.Steps)-1]
			last.Body = remove{was: l.clone(), exact: true}
		}
		if g := d.replica.filters.groups[id]; g != nil && ownerOf(g.ids, d.cluster) != "" {
			f := &Filter{UUID: id, Name: g.name, ExternalIDs: maps.Clone(g.ids)}
			v.removeFilter(f)
			last := &v.Plan.Steps[len(v.Plan.Steps)-1]
			last.Body = removeFilter{was: f, exact: true}
		}
	}
	return v.Plan, nil
}

// handler keeps the copy. Its methods are the client's to call.
type handler DB

// Tables chooses what is monitored.
func (h *handler) Tables(s ovsdb.Schema) (map[string]ovsdb.Monitored, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schema = s
	return monitored(s)
}

// Begin starts a new copy. All Services are looked at again: what has changed meanwhile is
// not known.
func (h *handler) Begin(u ovsdb.Updates) error {
	r := newReplica(h.cluster, h.schema)
	r.apply(u)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replica, h.lost = r, nil
	h.news.all = true
	(*DB)(h).announce()
	h.metrics.connected.Set(1)
	return nil
}

// Update changes the copy, and notes whom that concerns.
func (h *handler) Update(u ovsdb.Updates) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.replica == nil {
		return errors.New("changes before the rows")
	}
	if h.interests.concerned(h.replica.apply(u), h.news.dirty, h.news.strays) || len(h.news.dirty)+len(h.news.strays) > 0 {
		(*DB)(h).announce()
	}
	return nil
}

// End says that the copy is not kept any more.
func (h *handler) End(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replica, h.lost, h.lostAt = nil, err, time.Now()
	h.metrics.connected.Set(0)
}
