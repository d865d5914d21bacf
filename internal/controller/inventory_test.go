package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// answers of a backend that is asked for its pools, one after the other; the last
// one stays.
type answers struct {
	all   []answer
	asked []time.Duration // since it began
	began time.Time
}

type answer struct {
	pools []lb.Pool
	err   error
}

func (a *answers) next(context.Context) ([]lb.Pool, error) {
	a.asked = append(a.asked, time.Since(a.began))
	out := a.all[0]
	if len(a.all) > 1 {
		a.all = a.all[1:]
	}
	return out.pools, out.err
}

// A class waits until its backend's pools were read for the first time. After that,
// the last ones stay when they cannot be read.
func TestInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := []lb.Pool{{Key: lb.PoolKey{Name: "one"}}}, []lb.Pool{{Key: lb.PoolKey{Name: "one"}}, {Key: lb.PoolKey{Name: "two"}}}
		a := &answers{all: []answer{{err: errors.New("away")}, {err: errors.New("away")}, {pools: one}, {err: errors.New("away")}, {pools: two}}, began: time.Now()}
		i := newInventory(&Backend{Backend: keeper{pools: a.next}}, quiet)
		var all, first atomic.Int32
		i.changed, i.known = func() { all.Add(1) }, func() { first.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := i.Start(ctx); err != nil {
				t.Error(err)
			}
		}()
		for _, step := range []struct {
			after   time.Duration // the step before
			pending bool
			pools   int
			changes int32
		}{
			{0, true, 0, 0},
			{inventoryRetry, true, 0, 0},
			{inventoryRetry, false, 1, 1},
			{inventoryPause, false, 1, 1}, // it fails; they stay
			{inventoryRetry, false, 2, 2},
			{inventoryPause, false, 2, 3},
		} {
			<-time.After(step.after)
			synctest.Wait()
			if len(i.take()) != step.pools || i.pending() != step.pending || all.Load() != step.changes || first.Load() != min(1, step.changes) {
				t.Errorf("after %v: pending %v, pools %v, told %d times, %d times at first", time.Since(a.began), i.pending(), i.take(), all.Load(), first.Load())
			}
		}
		cancel()
		<-ended
		if len(a.asked) != 6 {
			t.Errorf("asked after %v", a.asked)
		}
	})
}

// While a Service waits, pools are read more often; and at once where somebody says
// so.
func TestInventoryHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{all: []answer{{}}, began: time.Now()}
		i := newInventory(&Backend{Backend: keeper{pools: a.next}}, quiet)
		var waits atomic.Bool
		i.changed, i.waiting = func() {}, waits.Load
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = i.Start(ctx)
		}()
		<-time.After(25 * time.Second)
		waits.Store(true)
		<-time.After(10 * time.Second)
		waits.Store(false)
		<-time.After(12 * time.Second)
		i.again()
		<-time.After(61 * time.Second)
		cancel()
		<-ended
		if diff := gocmp.Diff([]time.Duration{0, 30 * time.Second, 47 * time.Second, 107 * time.Second}, a.asked); diff != "" {
			t.Error(diff)
		}
	})
}

// Who is resynced more often is asked more often.
func TestInventoryPause(t *testing.T) {
	for resync, want := range map[time.Duration]time.Duration{0: inventoryPause, time.Hour: inventoryPause, time.Second: time.Second} {
		if i := newInventory(&Backend{Backend: keeper{}, Resync: resync}, quiet); i.pause != want {
			t.Errorf("resync %v: asked every %v", resync, i.pause)
		}
	}
	if i := newInventory(&Backend{Backend: idle{}}, quiet); i != nil || i.pending() {
		t.Error("an inventory of a backend that has none")
	}
}

// The end of the controller ends an inventory at once, and is no error.
func TestInventoryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		i := newInventory(&Backend{Backend: keeper{pools: func(ctx context.Context) ([]lb.Pool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}, quiet)
		began := time.Now()
		if err := i.Start(ctx); err != nil || time.Since(began) != time.Second || !i.pending() {
			t.Errorf("%v after %v, pending: %v", err, time.Since(began), i.pending())
		}
	})
}

// A Service whose backend has not said which pools it has is not even looked at; its
// pools are told to the ledger with all others.
func TestServicesWaitForTheInventory(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: "has"}}}
	pool := lb.Pool{Key: lb.PoolKey{Dialect: "stock", Name: "one"}}
	asked := 0
	b := &asking{keeper: keeper{speaker{dialect: "stock"}, func(context.Context) ([]lb.Pool, error) { return []lb.Pool{pool}, nil }}, asked: &asked}
	s := serviceOf("web", "", false)
	objects := objectsOf(t, s)
	c := commonOf(classesOf(cfg, map[config.Backend]backend.Backend{"has": b}), objects, fake.NewClientset(s))
	svc := &services{common: c, name: "has", backend: c.classes.backends["has"]}
	svc.inventory = newInventory(svc.backend, quiet)
	c.readings.inventories = []*inventory{svc.inventory}
	if _, err := svc.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}); err != nil || asked != 0 {
		t.Errorf("looked at %d times, %v", asked, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	woken := 0
	svc.inventory.changed, svc.inventory.known = cancel, func() { woken++ }
	if err := svc.inventory.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}); err != nil || asked != 0 {
		t.Errorf("before the ledger has its pools, looked at %d times, %v", asked, err)
	}
	all, err := c.readings.read(t.Context())
	if err != nil || woken != 1 || svc.inventory.pending() {
		t.Errorf("woken %d times, pending: %v, %v", woken, svc.inventory.pending(), err)
	}
	if err != nil || len(all) != 1 || all[0].Key != pool.Key {
		t.Errorf("pools %v, %v", all, err)
	}
}

// asking counts how often Services are looked at.
type asking struct {
	keeper
	asked *int
}

func (a *asking) Sync(context.Context, lb.Want) (lb.Outcome, error) {
	*a.asked++
	return lb.Outcome{}, nil
}
