package ovn

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/lb"
)

var (
	router = Holder{tableRouter, "r1", "shalb-dev"}
	inside = Holder{tableSwitch, "s1", "shalb-dev-default"}
)

// place is a project with nothing in it.
func place() *Seen {
	return &Seen{Cluster: "c1", Entrances: []Entrance{{"shalb-dev-ext-public", []string{"p1"}}}, Held: map[string][]Holder{}, Holders: []Holder{router, inside}, Gateways: []string{"shalb-dev-ext-public"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/64")}}
}

// made is web() as it is to be.
func made(id string) *LoadBalancer {
	w := web()
	return &LoadBalancer{UUID: id, Name: "shalb-dev-etcd-lb-tcp", Protocol: "tcp", VIPs: map[string]string{"168.119.17.52:2379": "10.0.0.11:2379,10.0.0.12:2379"},
		Options: map[string]string{"reject": "true"}, ExternalIDs: w.identity("c1")}
}

func TestExamine(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Service, *Seen)
		want   []string
	}{
		"new": {func(*Service, *Seen) {}, []string{
			"create load balancer shalb-dev-etcd-lb-tcp: for 168.119.17.52:2379",
			"create attachments to router shalb-dev, to switch shalb-dev-default of shalb-dev-etcd-lb-tcp",
		}},
		"as it is to be": {func(_ *Service, seen *Seen) { own(seen, made("a")) }, nil},
		"backends in another order, and others' marks": {func(_ *Service, seen *Seen) {
			l := made("a")
			l.VIPs["168.119.17.52:2379"] = "10.0.0.12:2379,10.0.0.11:2379"
			l.ExternalIDs["note"] = "of the operator"
			own(seen, l)
		}, nil},
		"no backends": {func(s *Service, seen *Seen) { s.Listeners[0].Backends = nil; own(seen, made("a")) }, []string{
			"update load balancer shalb-dev-etcd-lb-tcp: 168.119.17.52:2379 10.0.0.11:2379,10.0.0.12:2379 → none"}},
		"another address": {func(s *Service, seen *Seen) {
			s.Listeners[0].VIP = netip.MustParseAddrPort("168.119.17.53:2379")
			own(seen, made("a"))
		}, []string{
			"update load balancer shalb-dev-etcd-lb-tcp: 168.119.17.53:2379 none → 10.0.0.11:2379,10.0.0.12:2379, 168.119.17.52:2379 10.0.0.11:2379,10.0.0.12:2379 → removed (new connections)"}},
		"affinity": {func(s *Service, seen *Seen) { s.Affinity = 24 * time.Hour; own(seen, made("a")) }, []string{
			"update load balancer shalb-dev-etcd-lb-tcp: options:affinity_timeout none → 65535"}},
		"another protocol": {func(s *Service, seen *Seen) { s.Listeners[0].Protocol = "sctp"; own(seen, made("a")) }, []string{
			"create load balancer shalb-dev-etcd-lb-sctp: for 168.119.17.52:2379",
			"create attachments to router shalb-dev, to switch shalb-dev-default of shalb-dev-etcd-lb-sctp",
			"delete load balancer shalb-dev-etcd-lb-tcp (new connections)"}},
		"twice": {func(_ *Service, seen *Seen) { own(seen, made("a")); own(seen, made("b")) }, []string{
			"delete load balancer shalb-dev-etcd-lb-tcp: the Service has another one for this protocol"}},
		"gone": {func(s *Service, seen *Seen) { s.Listeners = nil; own(seen, made("a")) }, []string{
			"delete load balancer shalb-dev-etcd-lb-tcp (new connections)"}},
		"another router": {func(s *Service, seen *Seen) {
			own(seen, made("a"))
			seen.Holders = []Holder{{tableRouter, "r2", "other"}}
		}, []string{
			"create attachment to router other of shalb-dev-etcd-lb-tcp",
			"delete attachments to router shalb-dev, to switch shalb-dev-default of shalb-dev-etcd-lb-tcp (new connections)"}},
		"another address, which another has": {func(s *Service, seen *Seen) {
			s.Listeners[0].VIP = netip.MustParseAddrPort("168.119.17.53:2379")
			own(seen, made("a"))
			seen.Rivals = []Rival{{VIP: "168.119.17.53:2379", Protocol: "tcp", UUID: "b", Name: "theirs", On: router}}
		}, []string{"delete load balancer shalb-dev-etcd-lb-tcp (new connections)"}},
		"one address more and one less, on a router that is gone": {func(s *Service, seen *Seen) {
			l := made("a")
			l.VIPs["168.119.17.60:2379"] = ""
			own(seen, l)
			s.Listeners = append(s.Listeners, listener("tcp", "168.119.17.53:2379", "10.0.0.11:2379"))
			seen.RouterMissing, seen.Holders = true, nil
		}, []string{"update load balancer shalb-dev-etcd-lb-tcp: 168.119.17.60:2379 none → removed (new connections)"}},
		"no router": {func(_ *Service, seen *Seen) { seen.RouterMissing, seen.Holders = true, nil }, nil},
		"taken over": {func(s *Service, seen *Seen) {
			s.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
			other(seen, theirs("a"))
		}, []string{
			"update load balancer shalb-dev-etcd-lb-tcp: options:reject none → true, external_ids:fairlead.io/cluster none → c1, external_ids:fairlead.io/service none → shalb-dev/etcd-lb, external_ids:fairlead.io/service-uid none → u1, external_ids:vendor kube-ovn → fairlead, taken over in place"}},
		"not taken over: an address is somebody else's": {func(s *Service, seen *Seen) {
			s.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
			l := theirs("a")
			l.VIPs["168.119.17.60:1"] = ""
			other(seen, l)
			seen.Rivals = []Rival{{VIP: "168.119.17.52:2379", Protocol: "tcp", UUID: "a", Name: l.Name, On: router}}
		}, nil},
		"sources": {func(s *Service, seen *Seen) { only(s, "192.0.2.0/24"); own(seen, made("a")) }, []string{
			"create source filter " + filterName + ": only for 192.0.2.0/24 (new connections)"}},
		"sources as they are to be": {func(s *Service, seen *Seen) { only(s, "192.0.2.0/24"); own(seen, made("a")); filtered(s, seen) }, nil},
		"other sources, and a port made again": {func(s *Service, seen *Seen) {
			only(s, "192.0.2.0/24")
			own(seen, made("a"))
			filtered(s, seen)
			only(s, "198.51.100.0/24", "2001:db8::/32")
			seen.Entrances[0].Peers = []string{"p2", "p3"}
		}, []string{"update source filter " + filterName + ": ports 1 → 2, rules 1 → 1, only for 198.51.100.0/24, 2001:db8::/32 (new connections)"}},
		"sources no more": {func(s *Service, seen *Seen) {
			only(s, "192.0.2.0/24")
			own(seen, made("a"))
			filtered(s, seen)
			s.Restricted = false
		}, []string{"delete source filter " + filterName}},
		"sources of a Service that is gone": {func(s *Service, seen *Seen) {
			only(s, "192.0.2.0/24")
			filtered(s, seen)
			s.Listeners = nil
		}, []string{"delete source filter " + filterName}},
		"sources that cannot be filtered": {func(s *Service, seen *Seen) {
			only(s, "192.0.2.0/24")
			s.Strict = true
			seen.Entrances[0].Peers = nil
		}, nil},
		"not taken over: another Fairlead's": {func(s *Service, seen *Seen) {
			s.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
			l := made("a")
			l.ExternalIDs[KeyCluster] = "c2"
			other(seen, l)
			seen.Rivals = []Rival{{VIP: "168.119.17.52:2379", Protocol: "tcp", UUID: "a", Name: l.Name, On: router}}
		}, nil},
	} {
		s, seen := web(), place()
		c.change(s, seen)
		v := Examine(s, seen)
		if diff := cmp.Diff(c.want, v.Plan.Lines()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func own(seen *Seen, l *LoadBalancer) {
	seen.Owned = append(seen.Owned, l)
	seen.Held[l.UUID] = []Holder{router, inside}
}

func other(seen *Seen, l *LoadBalancer) {
	seen.Others = append(seen.Others, l)
	seen.Held[l.UUID] = []Holder{router, inside}
}

// theirs is web() as kube-dc's manager makes it.
func theirs(id string) *LoadBalancer {
	l := made(id)
	l.Options, l.ExternalIDs = map[string]string{}, map[string]string{"vendor": "kube-ovn"}
	return l
}

func TestRowName(t *testing.T) {
	long := &Service{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 63)}
	longer := &Service{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 62) + "t"}
	for _, protocol := range Protocols {
		a, b := long.RowName(protocol), longer.RowName(protocol)
		if len(a) > maxName || a == b || !strings.HasSuffix(a, "-"+protocol) {
			t.Errorf("%s and %s", a, b)
		}
	}
	if got := web().RowName("tcp"); got != "shalb-dev-etcd-lb-tcp" {
		t.Error(got)
	}
}

// FuzzReplica lets a database report anything, also what no client would write. The copy's
// indexes stay those of its rows, and a plan only ever touches the Service's own rows.
func FuzzReplica(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09"))
	f.Add([]byte(strings.Repeat("\x11\x42\x13\x94\x05", 30)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReplica("c1", schemaFor(t))
		w := web()
		w.TakeOver = []netip.Addr{netip.MustParseAddr("168.119.17.52")}
		w.Restricted = len(data)%2 == 0
		for len(data) >= 4 {
			r.apply(updateOf(data))
			data = data[4:]
			fresh := newReplica("c1", r.schema)
			for _, l := range r.balancers {
				fresh.index(l, multi.add)
			}
			for _, h := range r.holders {
				fresh.byHolderName.add(holderKey(h.table(), h.name), h.uuid)
				for l := range h.balancers {
					fresh.heldBy.add(l, h.uuid)
				}
			}
			for id, p := range r.ports {
				fresh.portsByName.add(p.name, id)
			}
			for id, to := range r.filters.ports {
				fresh.filters.peers.add(to, id)
			}
			for id, g := range r.filters.groups {
				if owner := ownerOf(g.ids, "c1"); owner != "" {
					fresh.filters.byOwner.add(owner, id)
				}
				for a := range g.rules {
					fresh.filters.byRule.add(a, id)
				}
			}
			for name, pair := range map[string][2]multi{"port": {r.portsByName, fresh.portsByName}, "peer": {r.filters.peers, fresh.filters.peers}, "filter": {r.filters.byOwner, fresh.filters.byOwner}, "rule": {r.filters.byRule, fresh.filters.byRule},
				"owner": {r.byOwner, fresh.byOwner}, "name": {r.byName, fresh.byName}, "vip": {r.byVIP, fresh.byVIP}, "holder": {r.byHolderName, fresh.byHolderName}, "held": {r.heldBy, fresh.heldBy}} {
				if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
					t.Fatalf("index by %s: %s", name, diff)
				}
			}
			for _, step := range Examine(w, r.observe(w)).Plan.Steps {
				if step.ID == "" {
					continue
				}
				if step.Kind == kindFilter {
					if g := r.filters.groups[step.ID]; ownerOf(g.ids, "c1") != w.Key() {
						t.Fatalf("%s touches %+v", step, g)
					}
					continue
				}
				if l := r.balancers[step.ID]; l.owner("c1") != w.Key() && (step.Verb == lb.VerbDelete && step.Kind == kindBalancer || !w.mayTakeOver(l)) {
					t.Fatalf("%s touches %+v", step, l)
				}
			}
		}
	})
}
