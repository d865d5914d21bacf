package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
)

// ovnRows: rows of Services in the northbound database of OVN, all on one router, against
// a bare loop that sends the same operations over a socket, and knows nothing of what is
// there.
func ovnRows(ctx context.Context, s settings) (rows []Row, err error) {
	ours, theirs, healed, oneByOne, grouped := []float64{}, []float64{}, []float64{}, []float64{}, []float64{}
	err = inTurns(s.rounds, 2, func(i int) error {
		n, err := startNorthbound(ctx, false)
		if err != nil {
			return err
		}
		defer func() { _ = n.stop() }()
		if i == 1 {
			took, err := n.bare(ctx, s.n, inFlight)
			if err != nil {
				return err
			}
			theirs = append(theirs, float64(s.n)/took.Seconds())
			if took, err = n.bare(ctx, s.n, 1); err != nil {
				return err
			}
			oneByOne = append(oneByOne, milliseconds(took))
			return nil
		}
		made, back, transactions, err := n.served(ctx, s.n)
		if err != nil {
			return err
		}
		ours = append(ours, float64(s.n)/made.Seconds())
		healed = append(healed, milliseconds(back))
		grouped = append(grouped, float64(transactions)/float64(s.n))
		return nil
	})
	if err != nil {
		return nil, err
	}
	mine, bare, back, once := median(ours), median(theirs), median(healed), median(oneByOne)
	rows = []Row{
		info(fmt.Sprintf("rows of %d Services, bare loop", s.n), bare, "Services/s"),
		info(fmt.Sprintf("rows of %d Services", s.n), mine, "Services/s"),
		info("rows, Fairlead to bare loop", mine/bare, "×").atLeast(0.8),
		info("transactions per Service", median(grouped), "").atMost(1),
		info(fmt.Sprintf("%d rows, bare client one by one", s.n), once, "ms"),
		info(fmt.Sprintf("%d rows that somebody deletes are back", s.n), back, "ms"),
		info("deleted rows, Fairlead to bare client one by one", back/once, "×").atMost(2),
	}
	more, err := ovnEndpoints(ctx, s)
	return append(rows, more...), err
}

// ovnEndpoints: how long a change of endpoints takes until northd has it, against
// ovn-nbctl, which waits for the same.
func ovnEndpoints(ctx context.Context, s settings) ([]Row, error) {
	n, err := startNorthbound(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = n.stop() }()
	k, err := n.keep(ctx)
	if err != nil {
		return nil, err
	}
	defer k.stop()
	if err := k.all(ctx, services(100)); err != nil {
		return nil, err
	}
	var ours, theirs []float64
	one := services(101)[100]
	err = inTurns(10*s.rounds, 2, func(i int) error {
		began := time.Now()
		if i == 1 {
			if _, err := n.ctl(ctx, "--wait=sb", "--", "--may-exist", "lb-add", "theirs", "198.18.0.1:80", fmt.Sprintf("10.0.0.%d:80", 1+len(theirs)%200)); err != nil {
				return err
			}
			theirs = append(theirs, milliseconds(time.Since(began)))
			return nil
		}
		one.Listeners[0].Backends = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + len(ours)%200)}), 80)}
		changed := *one
		changed.Listeners = append([]ovn.Listener{}, one.Listeners...)
		cfg, err := k.sync(ctx, &changed)
		if err != nil {
			return err
		}
		k.db.Await(changed.Key(), cfg)
		for !k.db.Programmed(cfg) {
			select {
			case <-k.news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ours = append(ours, milliseconds(time.Since(began)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	mine, nbctl := median(ours), median(theirs)
	return []Row{
		info("endpoint change until northd has it, ovn-nbctl --wait=sb", nbctl, "ms"),
		info("endpoint change until northd has it", mine, "ms"),
		info("endpoint change, Fairlead to ovn-nbctl", mine/nbctl, "×").atMost(1.5),
	}, nil
}

// services are n, all on the one router.
func services(n int) []*ovn.Service {
	out := make([]*ovn.Service, n)
	for i := range out {
		vip := netip.AddrPortFrom(netip.AddrFrom4([4]byte{168, 119, byte(i >> 8), byte(i)}), 80)
		out[i] = &ovn.Service{Namespace: "project", Name: "web-" + strconv.Itoa(i), UID: strconv.Itoa(i), Router: "project", Switches: []string{"project-default"},
			Listeners: []ovn.Listener{{Protocol: "tcp", VIP: vip, Backends: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.11:80"), netip.MustParseAddrPort("10.0.0.12:80")}}}}
	}
	return out
}

// keeper keeps Services as they are to be, with as many at work as a controller has.
type keeper struct {
	db   *ovn.DB
	news chan struct{}
	stop func()

	mu           sync.Mutex
	services     map[string]*ovn.Service
	queue        workqueue.TypedInterface[string]
	transactions map[int64]bool
	written      int // plans
}

func (n *northbound) keep(ctx context.Context) (*keeper, error) {
	db, err := ovn.New(ovn.Options{Cluster: "bench", Endpoints: []ovsdb.Endpoint{{Network: "unix", Address: n.socket}}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	k := &keeper{db: db, news: make(chan struct{}, 1), services: map[string]*ovn.Service{}, queue: workqueue.NewTyped[string](), transactions: map[int64]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { db.Run(ctx) })
	running.Go(func() {
		db.Watch(ctx, func(keys ...string) {
			select {
			case k.news <- struct{}{}:
			default:
			}
			for _, key := range keys {
				k.queue.Add(key)
			}
		}, func(...string) {})
	})
	for range inFlight {
		running.Go(func() {
			for key, end := k.queue.Get(); !end; key, end = k.queue.Get() {
				k.mu.Lock()
				s := k.services[key]
				k.mu.Unlock()
				if s != nil {
					if _, err := k.sync(ctx, s); err != nil && ctx.Err() == nil {
						progress("%v", err)
						k.queue.Add(key)
					}
				}
				k.queue.Done(key)
			}
		})
	}
	k.stop = func() { cancel(); k.queue.ShutDown(); running.Wait() }
	for db.Away() > 0 {
		select {
		case <-k.news:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), errors.New("no connection"))
		}
	}
	return k, nil
}

func (k *keeper) sync(ctx context.Context, s *ovn.Service) (cfg int64, err error) {
	v, err := k.db.Look(s)
	if err != nil || v.Plan.Empty() {
		return 0, err
	}
	if cfg, err = k.db.Commit(ctx, s.Key(), v.Plan); err == nil {
		k.mu.Lock()
		k.transactions[cfg] = true
		k.written++
		k.mu.Unlock()
	}
	return cfg, err
}

// all makes Services, and returns when they are there.
func (k *keeper) all(ctx context.Context, services []*ovn.Service) error {
	k.mu.Lock()
	for _, s := range services {
		k.services[s.Key()] = s
	}
	k.mu.Unlock()
	for _, s := range services {
		k.queue.Add(s.Key())
	}
	return k.complete(ctx, len(services))
}

// complete returns when n plans were committed.
func (k *keeper) complete(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		k.mu.Lock()
		written := k.written
		k.mu.Unlock()
		if written >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// served makes n Services, has somebody delete all their rows, and returns how long both
// took.
func (n *northbound) served(ctx context.Context, count int) (made, back time.Duration, transactions int, err error) {
	k, err := n.keep(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	defer k.stop()
	began := time.Now()
	if err := k.all(ctx, services(count)); err != nil {
		return 0, 0, 0, err
	}
	made = time.Since(began)
	k.mu.Lock()
	transactions = len(k.transactions)
	k.mu.Unlock()
	c, err := n.dial()
	if err != nil {
		return 0, 0, 0, err
	}
	defer c.Close()
	began = time.Now()
	if err := c.transact(deleteAll); err != nil {
		return 0, 0, 0, err
	}
	err = k.complete(ctx, 2*count) // each once more
	back = time.Since(began)
	if rows, wrong := k.db.Rows(); wrong != nil || len(rows) != count {
		return 0, 0, 0, fmt.Errorf("%d rows of %d are back: %w", len(rows), count, wrong)
	}
	return made, back, transactions, err
}
