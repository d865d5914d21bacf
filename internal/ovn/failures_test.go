package ovn

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"fairlead.io/test/kit/northbound"
)

// A controller that starts finds what it has made before, and writes nothing. One that
// ended in the middle has made some Services as a whole, and others not at all.
func TestRestart(t *testing.T) {
	s := newProject(t)
	services := many(50)
	for _, w := range services {
		w.Listeners = append(w.Listeners, Listener{Protocol: "udp", VIP: w.Listeners[0].VIP, Backends: w.Listeners[0].Backends})
	}
	first := keep(t, "c1", []string{s.Endpoint()}, services...)
	first.eventually("some are written", func() bool { rows, _ := first.db.Rows(); return len(rows) > 0 })
	first.stop()
	rows := strings.Fields(s.Ctl("--bare", "--columns=name", "list", "Load_Balancer"))
	for _, name := range rows {
		twin := strings.NewReplacer("-tcp", "-udp", "-udp", "-tcp").Replace(name)
		if !slices.Contains(rows, twin) {
			t.Errorf("%s is there, %s is not", name, twin)
		}
	}
	second := keep(t, "c1", []string{s.Endpoint()}, services...)
	second.settled("all are written")
	second.stop()
	before := s.Transactions()
	third := keep(t, "c1", []string{s.Endpoint()}, services...)
	third.eventually("all are looked at", func() bool { third.mu.Lock(); defer third.mu.Unlock(); return len(third.looks) == len(services) })
	if n := s.Transactions() - before; n != 0 || len(strings.Fields(s.Ctl("--bare", "--columns=name", "list", "Load_Balancer"))) != 100 {
		t.Errorf("%d transactions after a restart", n)
	}
}

// Of several rows of one identity the one with the lowest UUID stays.
func TestDuplicates(t *testing.T) {
	s := newProject(t)
	w := web()
	for range 3 {
		s.Ctl("--id=@l", "create", "Load_Balancer", "name=shalb-dev-etcd-lb-tcp", "protocol=tcp", "external_ids:vendor=fairlead", "external_ids:fairlead.io/cluster=c1",
			"external_ids:fairlead.io/service=shalb-dev/etcd-lb", "--", "add", "Logical_Router", "shalb-dev", "load_balancer", "@l")
	}
	lowest := slices.Min(strings.Fields(uuidOf(s)))
	before := s.Transactions()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("one is left")
	if got := uuidOf(s); got != lowest {
		t.Errorf("left is %s, want %s", got, lowest)
	}
	if r, n := attached(s, "Logical_Router", "shalb-dev"), s.Transactions()-before; r != 1 || n != 1 {
		t.Errorf("%d on the router, %d transactions", r, n)
	}
}

// Another address, and back, is one transaction each: the row stays, and has never both or
// none.
func TestAddressChanges(t *testing.T) {
	s := newProject(t)
	w := web()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created")
	row, before := uuidOf(s), s.Transactions()
	for i, vip := range []string{"168.119.17.60:2379", "168.119.17.52:2379"} {
		moved := *w
		moved.Listeners = []Listener{listener("tcp", vip, "10.0.0.11:2379")}
		k.want(&moved)
		k.settled("moved")
		if got := columns(s, "shalb-dev-etcd-lb-tcp", "vips"); got != vip+"=10.0.0.11:2379" || uuidOf(s) != row {
			t.Errorf("vips %s in row %s, which was %s", got, uuidOf(s), row)
		}
		if n := s.Transactions() - before; n != i+1 {
			t.Errorf("%d transactions", n)
		}
		taken, err := k.db.TakenAt(netip.MustParseAddrPort(vip).Addr())
		if err != nil || len(taken) != 1 || taken[0].Service != w.Key() {
			t.Errorf("taken: %v, %v", taken, err)
		}
		if taken, err := k.db.TakenAt(netip.MustParseAddrPort(vip).Addr(), Port{"udp", 2379}, Port{"tcp", 1}); err != nil || len(taken) != 0 {
			t.Errorf("other ports are taken: %v, %v", taken, err)
		}
	}
}

// A Service that was forgotten is reported, and not woken, if its row changes all the same.
func TestStraysAreReported(t *testing.T) {
	s := newProject(t)
	w := web()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created")
	k.eventually("its own commit was seen", func() bool { return k.view(w) != nil })
	k.mu.Lock()
	delete(k.services, w.Key())
	if len(k.strays) > 0 {
		t.Errorf("strays %v", k.strays)
	}
	k.mu.Unlock()
	before := k.wakes()
	k.db.Forget(w.Key())
	s.Ctl("lb-del", "shalb-dev-etcd-lb-tcp")
	k.eventually("reported", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.strays.has(w.Key()) })
	if n := k.wakes() - before; n != 0 {
		t.Errorf("%d wakes", n)
	}
}

// A database without what only some versions of OVN have is used without. One that lacks
// what is needed says so, until it has it.
func TestOtherSchemas(t *testing.T) {
	t.Run("less", func(t *testing.T) {
		s := northbound.StartWithout(t, "Logical_Router.load_balancer_group", "Logical_Switch.load_balancer_group", "Load_Balancer_Group",
			"Load_Balancer.selection_fields", "Load_Balancer.ip_port_mappings", "Load_Balancer.health_check", "Logical_Router_Port.ha_chassis_group", "NB_Global.options")
		s.Ctl("init")
		project(s, "shalb-dev")
		k := keep(t, "c1", []string{s.Endpoint()}, web())
		k.settled("created")
		k.healed("deleted", func() { s.Ctl("--all", "destroy", "Load_Balancer") })
	})
	t.Run("too little", func(t *testing.T) {
		s := northbound.StartWithout(t, "Load_Balancer.options")
		w := web()
		k := keep(t, "c1", []string{s.Endpoint()}, w)
		k.eventually("it is said", func() bool {
			_, err := k.db.Peek(w)
			return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), "has no column options in table Load_Balancer")
		})
		if _, err := k.db.Commit(context.WithoutCancel(t.Context()), w.Key(), k.planFor(w)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("commit: %v", err)
		}
		s.Kill()
		s.Upgrade()
		s.Start()
		s.Ctl("init")
		project(s, "shalb-dev")
		k.settled("after the upgrade")
	})
}
