package ovn

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/northbound"
)

func newProject(t *testing.T) *northbound.Server {
	t.Helper()
	s := northbound.Start(t)
	s.Ctl("init")
	project(s, "shalb-dev")
	return s
}

// A Service is made in one transaction, and left alone from then on.
func TestServiceIsMadeInOneTransaction(t *testing.T) {
	s := newProject(t)
	w := web()
	w.Affinity = 3 * time.Hour
	w.Listeners = append(w.Listeners,
		listener("udp", "168.119.17.52:53", "10.0.0.11:5353"),
		listener("sctp", "168.119.17.52:38412"),
		listener("tcp", "[2001:db8::52]:2379", "[fd00::11]:2379", "10.0.0.11:2379"))
	before := s.Transactions()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created")
	if n := s.Transactions() - before; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	for name, want := range map[string]string{
		"shalb-dev-etcd-lb-tcp":  "tcp,168.119.17.52:2379=10.0.0.11:2379,10.0.0.12:2379 [2001:db8::52]:2379=[fd00::11]:2379,affinity_timeout=10800 reject=true",
		"shalb-dev-etcd-lb-udp":  "udp,168.119.17.52:53=10.0.0.11:5353,affinity_timeout=10800 ct_flush=true reject=true",
		"shalb-dev-etcd-lb-sctp": "sctp,168.119.17.52:38412=,affinity_timeout=10800 reject=true",
	} {
		if got := strings.ReplaceAll(columns(s, name, "protocol,vips,options"), `"`, ""); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if got, want := columns(s, name, "external_ids"), "fairlead.io/cluster=c1 fairlead.io/service=shalb-dev/etcd-lb fairlead.io/service-uid=u1 vendor=fairlead"; got != want {
			t.Errorf("%s: external_ids %s, want %s", name, got, want)
		}
	}
	if r, sw := attached(s, "Logical_Router", "shalb-dev"), attached(s, "Logical_Switch", "shalb-dev-default"); r != 3 || sw != 3 {
		t.Errorf("%d on the router and %d on the switch, want 3", r, sw)
	}

	k.wake()
	k.eventually("it is looked at again", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.looks[w.Key()] >= 2 })
	w2 := *w
	w2.Listeners = w.Listeners[:1]
	w2.Affinity = 0
	k.want(&w2)
	k.settled("two protocols go")
	if n := s.Transactions() - before; n != 2 {
		t.Errorf("%d transactions after a change, want 2", n)
	}
	if got, want := columns(s, "shalb-dev-etcd-lb-tcp", "options"), "reject=true"; got != want {
		t.Errorf("options %s, want %s", got, want)
	}
	w3 := Service{Namespace: w.Namespace, Name: w.Name, UID: w.UID}
	k.want(&w3)
	k.settled("deleted")
	if out := s.Ctl("lb-list"); strings.TrimSpace(out) != "" {
		t.Errorf("left:\n%s", out)
	}
}

// Whatever others change of a Service's rows is reported, and repaired.
func TestDriftHeals(t *testing.T) {
	s := newProject(t)
	w := web()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created")
	const row = "shalb-dev-etcd-lb-tcp"
	for what, do := range map[string]func(){
		"row deleted":      func() { s.Ctl("lb-del", row) },
		"VIP removed":      func() { s.Ctl("lb-del", row, "168.119.17.52:2379") },
		"backends changed": func() { s.Ctl("set", "Load_Balancer", row, `vips:"168.119.17.52:2379"="10.0.0.99:1"`) },
		"VIP added":        func() { s.Ctl("set", "Load_Balancer", row, `vips:"168.119.17.53:1"="10.0.0.99:1"`) },
		"option removed":   func() { s.Ctl("remove", "Load_Balancer", row, "options", "reject") },
		"option added":     func() { s.Ctl("set", "Load_Balancer", row, "options:neighbor_responder=none") },
		"protocol changed": func() { s.Ctl("set", "Load_Balancer", row, "protocol=udp") },
		"renamed":          func() { s.Ctl("set", "Load_Balancer", row, "name=other") },
		"selection fields": func() { s.Ctl("set", "Load_Balancer", row, "selection_fields=ip_src") },
		"port mappings":    func() { s.Ctl("set", "Load_Balancer", row, `ip_port_mappings:10.0.0.11="p:10.0.0.9"`) },
		"health check": func() {
			s.Ctl("--id=@c", "create", "Load_Balancer_Health_Check", `vip="168.119.17.52:2379"`, "--", "add", "Load_Balancer", row, "health_check", "@c")
		},
		"UID changed": func() { s.Ctl("set", "Load_Balancer", row, "external_ids:fairlead.io/service-uid=x") },
		"identity removed": func() {
			s.Ctl("lr-lb-del", "shalb-dev", "--", "ls-lb-del", "shalb-dev-default", "--", "clear", "Load_Balancer", row, "external_ids", "--", "set", "Load_Balancer", row, "name=nobodys")
		},
		"detached from the router": func() { s.Ctl("lr-lb-del", "shalb-dev", row) },
		"detached from the switch": func() { s.Ctl("ls-lb-del", "shalb-dev-default", row) },
		"attached elsewhere":       func() { s.Ctl("lr-add", "elsewhere", "--", "lr-lb-add", "elsewhere", row) },
		"duplicate": func() {
			s.Ctl("create", "Load_Balancer", "name="+row, "protocol=tcp", "external_ids:vendor=fairlead", "external_ids:fairlead.io/cluster=c1", "external_ids:fairlead.io/service=shalb-dev/etcd-lb")
		},
		"switch made again": func() { s.Ctl("ls-del", "shalb-dev-default", "--", "ls-add", "shalb-dev-default") },
		"router made again": func() {
			s.Ctl("lr-del", "shalb-dev")
			project(s, "shalb-dev")
		},
	} {
		k.healed(what, do)
		if r, sw := attached(s, "Logical_Router", "shalb-dev"), attached(s, "Logical_Switch", "shalb-dev-default"); r != 1 || sw != 1 {
			t.Errorf("%s: %d on the router, %d on the switch", what, r, sw)
		}
	}
	if got, want := columns(s, row, "vips,options,protocol,selection_fields,health_check,ip_port_mappings"), `"168.119.17.52:2379=10.0.0.11:2379,10.0.0.12:2379",reject=true,tcp,,,`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Rows of others stay as they are, whatever they are called.
func TestOthersRowsAreNotTouched(t *testing.T) {
	s := newProject(t)
	s.Ctl("lb-add", "vpc-shalb-dev-tcp-load", "10.96.0.1:443", "10.0.0.5:6443")
	s.Ctl("create", "Load_Balancer", "name=shalb-dev-etcd-lb-tcp", "protocol=tcp", `vips:"203.0.113.1:1"="10.0.0.1:1"`, "external_ids:vendor=kube-ovn")
	s.Ctl("create", "Load_Balancer", "name=shalb-dev-etcd-lb-tcp", "protocol=tcp", "external_ids:vendor=fairlead", "external_ids:fairlead.io/cluster=c2", "external_ids:fairlead.io/service=shalb-dev/etcd-lb")
	foreign := func() string {
		return s.Ctl("--columns=_uuid,name,vips,options,external_ids", "find", "Load_Balancer", "external_ids:fairlead.io/cluster!=c1")
	}
	before := foreign()
	w := web()
	w.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created beside them")
	k.healed("deleted", func() { s.Ctl("destroy", "Load_Balancer", uuidOf(s)) })
	k.want(&Service{Namespace: w.Namespace, Name: w.Name, UID: w.UID})
	k.settled("removed")
	if after := foreign(); after != before {
		t.Errorf("rows of others changed:\n%s\nwere\n%s", after, before)
	}
}

// uuidOf is the row of cluster c1.
func uuidOf(s *northbound.Server) string {
	return strings.TrimSpace(s.Ctl("--bare", "--columns=_uuid", "find", "Load_Balancer", "external_ids:fairlead.io/cluster=c1"))
}

// An address that somebody else's row has on the router is not taken, until it is free.
func TestVIPConflict(t *testing.T) {
	for name, attach := range map[string][]string{
		"router": {"lr-lb-add", "shalb-dev", "theirs"},
		"switch": {"ls-lb-add", "shalb-dev-default", "theirs"},
		"group":  {"--id=@g", "create", "Load_Balancer_Group", "name=g", "--", "add", "Logical_Router", "shalb-dev", "load_balancer_group", "@g"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newProject(t)
			s.Ctl("lb-add", "theirs", "168.119.17.52:2379", "10.0.0.5:1")
			s.Ctl(attach...)
			if name == "group" {
				s.Ctl("add", "Load_Balancer_Group", "g", "load_balancer", strings.TrimSpace(s.Ctl("--bare", "--columns=_uuid", "find", "Load_Balancer", "name=theirs")))
			}
			w := web()
			before := s.Transactions()
			k := keep(t, "c1", []string{s.Endpoint()}, w)
			k.eventually("the conflict is seen", func() bool { v := k.view(w); return v != nil && len(v.Conflicts) == 1 })
			if got := k.view(w).Conflicts[0].Name; got != "theirs" {
				t.Errorf("conflict with %s", got)
			}
			if n := s.Transactions() - before; n != 0 {
				t.Errorf("%d transactions, want none", n)
			}
			k.healed("the address is free", func() { s.Ctl("lb-del", "theirs", "168.119.17.52:2379") })
			// Who comes later does not take it away.
			s.Ctl("--may-exist", "lb-add", "theirs", "168.119.17.52:2379", "10.0.0.5:1", "--", "--may-exist", "lr-lb-add", "shalb-dev", "theirs")
			k.eventually("the other is seen", func() bool { return len(k.view(w).Contested) == 1 })
			k.settled("kept")
		})
	}
}

// What another controller has made for the Service is taken over in place.
func TestTakeOver(t *testing.T) {
	s := newProject(t)
	s.Ctl("lb-add", "shalb-dev-etcd-lb-tcp", "168.119.17.52:2379", "10.0.0.12:2379,10.0.0.11:2379", "--", "lr-lb-add", "shalb-dev", "shalb-dev-etcd-lb-tcp", "--", "ls-lb-add", "shalb-dev-default", "shalb-dev-etcd-lb-tcp")
	s.Ctl("set", "Load_Balancer", "shalb-dev-etcd-lb-tcp", "external_ids:vendor=kube-ovn")
	before := columns(s, "shalb-dev-etcd-lb-tcp", "_uuid,vips")
	w := web()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.eventually("without leave it is a conflict", func() bool { v := k.view(w); return v != nil && len(v.Conflicts) == 1 })
	taken := *w
	taken.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
	k.want(&taken)
	k.settled("taken over")
	if after := columns(s, "shalb-dev-etcd-lb-tcp", "_uuid,vips"); after != before {
		t.Errorf("row was %s and is %s", before, after)
	}
	if got, want := columns(s, "shalb-dev-etcd-lb-tcp", "options,external_ids"), "reject=true,fairlead.io/cluster=c1 fairlead.io/service=shalb-dev/etcd-lb fairlead.io/service-uid=u1 vendor=fairlead"; got != want {
		t.Errorf("row %s, want %s", got, want)
	}
}

// A router or a gateway that is missing is waited for; backends that the router does not
// reach are left out.
func TestPlaceIsWaitedFor(t *testing.T) {
	s := northbound.Start(t)
	s.Ctl("init")
	w := web()
	w.Gateway = "shalb-dev-ext-public"
	w.Listeners[0].Backends = append(w.Listeners[0].Backends, netip.MustParseAddrPort("192.168.1.1:80"))
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.eventually("the router is missing", func() bool { v := k.view(w); return v != nil && v.RouterMissing })
	s.Ctl("lr-add", "shalb-dev")
	k.eventually("switch and gateway are missing", func() bool {
		v := k.view(w)
		return !v.RouterMissing && v.GatewayMissing && len(v.MissingSwitches) == 1 && len(v.Outside) == 3
	})
	project(s, "shalb-dev")
	k.eventually("all is there", func() bool {
		v := k.view(w)
		return !v.GatewayMissing && len(v.MissingSwitches) == 0 && len(v.Outside) == 1 && v.Outside[0] == netip.MustParseAddr("192.168.1.1")
	})
	k.settled("it came")
	reached, err := k.db.Reached(w.Router, w.Listeners)
	if err != nil || len(reached) != 1 || !slices.Equal(reached[0].Backends, w.Listeners[0].Backends[:2]) || len(w.Listeners[0].Backends) != 3 {
		t.Errorf("reached are %v, %v", reached, err)
	}
	if reached, err := k.db.Reached("moon", w.Listeners); err != nil || len(reached[0].Backends) != 0 {
		t.Errorf("reached are %v, %v", reached, err)
	}
	if got, want := columns(s, "shalb-dev-etcd-lb-tcp", "vips"), `"168.119.17.52:2379=10.0.0.11:2379,10.0.0.12:2379"`; got != want {
		t.Errorf("vips %s, want %s", got, want)
	}
}
