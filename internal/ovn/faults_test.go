package ovn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/test/kit/northbound"
)

// The database dies while Services are written. Each is made once, and what others delete
// meanwhile comes back.
func TestDatabaseIsKilled(t *testing.T) {
	s := newProject(t)
	services := many(200)
	k := keep(t, "c1", []string{s.Endpoint()}, services...)
	k.eventually("some are written", func() bool { rows, _ := k.db.Rows(); return len(rows) > 10 })
	s.Kill()
	k.eventually("the loss is noticed", func() bool { _, err := k.db.Peek(services[0]); return errors.Is(err, ErrUnavailable) })
	if _, err := k.db.Commit(t.Context(), "shalb-dev/s0000", k.planFor(services[0])); err == nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("commit without a database: %v", err)
	}
	s.Start()
	k.settled("all are written")
	if rows, _ := k.db.Rows(); len(rows) != len(services) {
		t.Errorf("%d rows for %d Services", len(rows), len(services))
	}
	k.mu.Lock()
	k.looks = map[string]int{}
	k.mu.Unlock()
	s.Kill()
	s.Start()
	k.eventually("all are looked at again", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.looks) == len(services) })
}

func (k *keeper) planFor(s *Service) lb.Plan { return Examine(s, &Seen{Cluster: "c1"}).Plan }

// The leader of a cluster dies, or another becomes the leader. Writing goes on.
func TestLeaderChanges(t *testing.T) {
	c := northbound.StartCluster(t)
	c.Leader().Ctl("init")
	project(c.Leader(), "shalb-dev")
	w := web()
	k := keep(t, "c1", c.Endpoints(), w)
	k.settled("created")

	old := c.Leader()
	old.TransferLeadership()
	k.eventually("another leads", func() bool { l := c.Leader(); return l != nil && l != old })
	moved := *w
	moved.Listeners = []Listener{listener("tcp", "168.119.17.53:2379", "10.0.0.11:2379")}
	k.want(&moved)
	k.eventually("it is written to the new leader", func() bool { return strings.Contains(c.Leader().Ctl("lb-list"), "168.119.17.53:2379") })

	dead := c.Leader()
	dead.Kill()
	k.eventually("another leads", func() bool { return c.Leader() != nil })
	k.healed("deleted by others", func() { c.Leader().Ctl("lb-del", "shalb-dev-etcd-lb-tcp") })
	if got := c.Leader().Ctl("lb-list"); strings.Count(got, "168.119.17.53:2379") != 1 {
		t.Errorf("load balancers:\n%s", got)
	}
	dead.Start()
}

// 1,000 rows that another deletes in one go are back.
func TestThousandRowsComeBack(t *testing.T) {
	s := newProject(t)
	services := many(1000)
	k := keep(t, "c1", []string{s.Endpoint()}, services...)
	k.settled("created")
	if n := attached(s, "Logical_Router", "shalb-dev"); n != 1000 {
		t.Fatalf("%d on the router", n)
	}
	before := s.Transactions()
	k.healed("all deleted", func() { s.Ctl("--all", "destroy", "Load_Balancer") })
	if n := attached(s, "Logical_Router", "shalb-dev"); n != 1000 {
		t.Errorf("%d on the router", n)
	}
	n := s.Transactions() - before
	t.Logf("%d transactions", n)
	if n > 1001 {
		t.Errorf("%d transactions for 1,000 Services", n)
	}
}

// A plan that cannot be committed does not hold up those that wait with it.
func TestOneBadPlanInAGroup(t *testing.T) {
	s := newProject(t)
	services := many(20)
	k := keep(t, "c1", []string{s.Endpoint()})
	k.eventually("connected", func() bool { _, err := k.db.Rows(); return err == nil })
	plans := make([]lb.Plan, len(services))
	for i, w := range services {
		v, err := k.db.Look(w)
		if err != nil {
			t.Fatal(err)
		}
		plans[i] = v.Plan
	}
	s.Ctl("lb-add", "shalb-dev-s0007-tcp", "203.0.113.1:1", "10.0.0.1:1") // now the name is taken
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, w := range services {
		all.Go(func() { _, errs[i] = k.db.Commit(context.WithoutCancel(t.Context()), w.Key(), plans[i]) })
	}
	all.Wait()
	for i, err := range errs {
		if _, refused := errors.AsType[*ovsdb.TransactionError](err); refused != (i == 7) {
			t.Errorf("Service %d: %v", i, err)
		}
	}
}

// A Service is programmed when northd has reached its commit.
func TestNorthdIsAwaited(t *testing.T) {
	s := newProject(t)
	w := web()
	k := keep(t, "c1", []string{s.Endpoint()})
	k.eventually("connected", func() bool { _, err := k.db.Rows(); return err == nil })
	v, err := k.db.Look(w)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := k.db.Commit(t.Context(), w.Key(), v.Plan)
	if err != nil || cfg == 0 {
		t.Fatal(cfg, err)
	}
	if k.db.Programmed(cfg) {
		t.Error("programmed without northd")
	}
	k.mu.Lock()
	k.services[w.Key()] = w
	k.mu.Unlock()
	k.db.Await(w.Key(), cfg)
	s.Northd()
	k.eventually("the Service is woken", func() bool { return k.wakes() > 0 })
	if !k.db.Programmed(cfg) {
		t.Error("woken before northd is done")
	}
	if v, _ := k.db.Peek(w); !strings.HasPrefix(v.Version, "23.") {
		t.Errorf("version of northd: %q", v.Version)
	}
}

// Two clusters share a database, and do not see each other's rows as theirs.
func TestTwoClusters(t *testing.T) {
	s := newProject(t)
	w, other := web(), web()
	other.Listeners = []Listener{listener("tcp", "168.119.17.53:2379", "10.0.0.11:2379")}
	k1 := keep(t, "c1", []string{s.Endpoint()}, w)
	k1.settled("first")
	k2 := keep(t, "c2", []string{s.Endpoint()}, other)
	k2.settled("second")
	k1.want(&Service{Namespace: w.Namespace, Name: w.Name})
	k1.settled("the first goes")
	if got := columns(s, "shalb-dev-etcd-lb-tcp", "vips"); !strings.Contains(got, "168.119.17.53") || strings.Contains(got, "168.119.17.52") {
		t.Errorf("left: %s", got)
	}
}
