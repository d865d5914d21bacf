package ovn

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
)

// An address is published once northd has it, and its rows heal.
func TestServiceIsServed(t *testing.T) {
	w := newWorld(t)
	out := w.sync()
	if !out.Passing || out.Again <= 0 || out.Ingress != nil {
		t.Errorf("without northd: %+v", out)
	}
	w.server.Northd()
	w.eventually("northd wakes the Service", func() bool { return w.wakes() > 0 })
	out = w.served()
	if len(out.Ingress) != 1 || out.Ingress[0] != (lb.Ingress{IP: "168.119.17.52", Mode: lb.IPModeProxy}) {
		t.Errorf("published %v", out.Ingress)
	}
	if want := "Load balancer shalb-dev-web-tcp serves the Service at 168.119.17.52."; out.Reason.Text != want {
		t.Errorf("says %q", out.Reason.Text)
	}
	if !w.want.Service.Attested() {
		t.Error("what we wrote is not proof of what the Service has")
	}
	const rows = "shalb-dev-web-tcp,168.119.17.52:80=10.0.0.11:8080,reject=true"
	if got := w.rows(); got != rows {
		t.Errorf("rows %s", got)
	}
	if out := w.sync(); out.Done != 0 || len(out.Tell) != 0 {
		t.Errorf("a second look does something: %v, tells %v", out.Plan, out.Tell)
	}

	before := w.wakes()
	w.server.Ctl("lb-del", "shalb-dev-web-tcp")
	w.eventually("the deletion wakes the Service", func() bool { return w.wakes() > before })
	if out := w.sync(); out.Passing || !out.Reason.Ready() || !told(out, lb.DriftRepaired) {
		t.Errorf("after a repair: %v, tells %v", out.Reason, out.Tell)
	}
	if got := w.rows(); got != rows {
		t.Errorf("rows %s", got)
	}

	w.want.Gone = true
	if out := w.sync(); !out.Gone || out.Ingress == nil || out.Condition != lb.ConditionGoes || w.rows() != "" {
		t.Errorf("released: %+v, rows %s", out, w.rows())
	}
}

// What cannot be served says why, and publishes nothing; what it had stays.
func TestReasons(t *testing.T) {
	for code, c := range map[lb.Code]struct {
		before, after func(*world)
		served        bool
	}{
		RouterMissing: {before: func(w *world) { w.place.Router = "moon" }, after: func(w *world) { w.place.Router = "shalb-dev" }},
		GatewayMissing: {before: func(w *world) { w.server.Ctl("lrp-del-gateway-chassis", "shalb-dev-ext-public", "ch1") },
			after: func(w *world) { w.server.Ctl("lrp-set-gateway-chassis", "shalb-dev-ext-public", "ch1") }},
		VIPConflict: {before: func(w *world) {
			w.server.Ctl("lb-add", "theirs", "168.119.17.52:80", "10.0.0.5:1", "--", "lr-lb-add", "shalb-dev", "theirs")
		}, after: func(w *world) { w.server.Ctl("lb-del", "theirs") }},
		SourceRangesUnsupported: {before: func(w *world) {
			w.server.Ctl("lsp-del", "ext-public-shalb-dev")
			w.want.Service.SourceRanges = []string{"192.0.2.0/24"}
		}, after: func(w *world) { w.connect() }},
		SwitchMissing: {before: func(w *world) { w.server.Ctl("ls-del", "shalb-dev-default") },
			after: func(w *world) { w.server.Ctl("ls-add", "shalb-dev-default") }, served: true},
		BackendsOutside: {before: func(w *world) {
			w.want.Endpoints = append(w.want.Endpoints, lb.Endpoint{Address: netip.MustParseAddr("192.168.1.1"), Ready: true, Ports: map[lb.EndpointPort]uint16{{Name: "http", Protocol: "TCP"}: 1}})
		}, after: func(w *world) { w.want.Endpoints = w.want.Endpoints[:1] }, served: true},
		SeveralGateways: {before: func(w *world) {
			w.server.Ctl("lrp-add", "shalb-dev", "more", "02:00:00:00:00:03", "203.0.113.1/24", "--", "lrp-set-gateway-chassis", "more", "ch1")
		}, after: func(w *world) { w.server.Ctl("lrp-del", "more") }, served: true},
	} {
		t.Run(string(code), func(t *testing.T) {
			w := newWorld(t)
			w.server.Northd()
			c.before(w)
			w.seen()
			var out lb.Outcome
			w.eventually("it is said", func() bool { out = w.sync(); return out.Reason.Code == code || told(out, code) })
			if c.served != told(out, code) {
				t.Errorf("%v, tells %v", out.Reason, out.Tell)
			}
			if !c.served && (len(w.want.Service.Ingress) > 0 || code != GatewayMissing && strings.Contains(w.rows(), "shalb-dev-web")) {
				t.Errorf("published %v, rows %s", w.want.Service.Ingress, w.rows())
			}
			c.after(w)
			w.eventually("it heals", func() bool {
				out := w.sync()
				return out.Reason.Ready() && !out.Passing && !told(out, code) && len(w.want.Service.Ingress) == 1
			})
		})
	}
}

// A Service that has its address keeps it while something is in the way, and says so.
func TestPublishedAddressStays(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	w.served()
	w.place.Router = "moon"
	out := w.sync()
	if out.Reason.Code != RouterMissing || out.Ingress != nil || !w.want.Service.Attested() || !strings.Contains(out.Reason.Text, "keeps 168.119.17.52") {
		t.Errorf("%v, publishes %v", out.Reason, out.Ingress)
	}
	w.place.Router = "shalb-dev"
	w.server.Ctl("lsp-del", "ext-public-shalb-dev")
	w.want.Service.SourceRanges = []string{"192.0.2.0/24"}
	w.eventually("the ranges cannot be enforced", func() bool { out = w.sync(); return told(out, SourceRangesIgnored) })
	if !out.Reason.Ready() {
		t.Error(out.Reason)
	}
	w.connect()
	w.eventually("they can be", func() bool { out := w.sync(); return out.Reason.Ready() && !told(out, SourceRangesIgnored) })
}

// A Service that moves to an address that another has loses its former one all the same:
// it may be somebody else's by now.
func TestFormerAddressGoes(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	w.served()
	w.server.Ctl("lb-add", "theirs", "168.119.17.53:80", "10.0.0.5:1", "--", "lr-lb-add", "shalb-dev", "theirs")
	w.place.Addresses = []netip.Addr{netip.MustParseAddr("168.119.17.53")}
	w.eventually("the other is seen", func() bool {
		v, err := w.backend.db.Peek(desired(&w.want, &w.place, w.place.Addresses))
		return err == nil && len(v.Conflicts) == 1
	})
	out := w.sync()
	if out.Reason.Code != VIPConflict || !told(out, lb.UpdatedLoadBalancer) || strings.Contains(w.rows(), "168.119.17.52") || len(w.want.Service.Ingress) > 0 {
		t.Errorf("%v, tells %v, rows %s, published %v", out.Reason, out.Tell, w.rows(), w.want.Service.Ingress)
	}
	w.server.Ctl("lb-del", "theirs")
	w.eventually("it is served at the other", func() bool {
		if out := w.sync(); told(out, lb.DriftRepaired) {
			t.Errorf("tells %v", out.Tell)
		}
		return strings.Contains(w.rows(), "168.119.17.53")
	})
}

// Only some networks may connect, from the first packet on, until the Service has no
// ranges any more. The filter goes with the Service.
func TestSourceRanges(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	rules := func() string {
		return strings.TrimSpace(w.server.Ctl("--bare", "--columns=match", "find", "ACL", "external_ids:fairlead.io/service=shalb-dev/web"))
	}
	w.want.Service.SourceRanges = []string{" 128.0.0.0/1", "x"}
	w.served()
	if got, want := rules(), "ip4.dst == 168.119.17.52 && tcp.dst == {80} && ip4.src == {0.0.0.0/1}"; got != want {
		t.Errorf("rules %s", got)
	}
	w.want.Service.SourceRanges = []string{"0.0.0.0/0"}
	w.served()
	if got := rules(); got != "" {
		t.Errorf("rules %s for everybody", got)
	}
	w.want.Service.SourceRanges = []string{"192.0.2.0/24"}
	if out := w.served(); !told(out, lb.UpdatedLoadBalancer) || rules() == "" {
		t.Errorf("tells %v, rules %s", out.Tell, rules())
	}
	orphans, err := w.backend.Orphans(t.Context(), func(types.NamespacedName, types.UID) bool { return false })
	if err != nil || len(orphans) != 2 {
		t.Fatal(orphans, err)
	}
	if _, err := w.backend.Remove(t.Context(), orphans); err != nil || rules() != "" || w.rows() != "" {
		t.Errorf("%v, rules %s, rows %s", err, rules(), w.rows())
	}
	w.served()
	if w.want.Gone = true; !w.sync().Gone || rules() != "" {
		t.Errorf("rules %s of a Service that is gone", rules())
	}
}

// Without northd, the address is published after a while, with a warning.
func TestNorthdBehind(t *testing.T) {
	w := newWorld(t)
	w.sync()
	w.backend.mu.Lock()
	p := w.backend.pending["u1"]
	p.since = p.since.Add(-northdPatience)
	w.backend.pending["u1"] = p
	w.backend.mu.Unlock()
	if out := w.sync(); len(out.Ingress) != 1 || !told(out, NorthdBehind) {
		t.Errorf("%+v", out)
	}
}

// A process that ended after it wrote the rows has not published them. The next one waits
// for northd as the first would have.
func TestNorthdIsAwaitedAfterARestart(t *testing.T) {
	w := newWorld(t)
	if out := w.sync(); !out.Passing || out.Done == 0 {
		t.Fatalf("without northd: %+v", out)
	}
	w.backend = New(Options{DB: w.backend.db, Placer: w})
	if out := w.sync(); !out.Passing || out.Again <= 0 || out.Done != 0 || out.Ingress != nil {
		t.Errorf("without northd, after a restart: %+v", out)
	}
	w.server.Northd()
	w.eventually("northd wakes the Service", func() bool { return w.wakes() > 0 })
	if out := w.sync(); out.Passing || len(out.Ingress) != 1 {
		t.Errorf("with northd: %+v", out)
	}
}

// A dry run tells the plan, and writes nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.want.DryRun = true
	before := w.server.Transactions()
	out := w.sync()
	const want = "Dry run: create load balancer shalb-dev-web-tcp: for 168.119.17.52:80; create attachments to router shalb-dev, to switch shalb-dev-default of shalb-dev-web-tcp; impact: none. Nothing was changed."
	if out.Reason.Text != want {
		t.Errorf("says %q", out.Reason.Text)
	}
	if n := w.server.Transactions() - before; n != 0 {
		t.Errorf("%d transactions", n)
	}
}

// Rows of Services that no longer exist go; those of others stay.
func TestRowsOfDeletedServicesGo(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	w.served()
	w.server.Ctl("lb-add", "theirs", "203.0.113.1:1", "10.0.0.1:1")
	orphans, err := w.backend.Orphans(t.Context(), func(_ types.NamespacedName, uid types.UID) bool { return uid == "u1" })
	if err != nil || len(orphans) != 0 {
		t.Fatal(orphans, err)
	}
	orphans, err = w.backend.Orphans(t.Context(), func(types.NamespacedName, types.UID) bool { return false })
	if err != nil || len(orphans) != 1 || orphans[0].Service != w.want.Service.Key {
		t.Fatal(orphans, err)
	}
	// The Service was created again meanwhile.
	w.want.Service.UID = "u2"
	w.sync()
	if plan, err := w.backend.Remove(t.Context(), orphans); err != nil || !plan.Empty() {
		t.Errorf("removed %v, %v", plan, err)
	}
	orphans, _ = w.backend.Orphans(t.Context(), func(types.NamespacedName, types.UID) bool { return false })
	if _, err := w.backend.Remove(t.Context(), orphans); err != nil {
		t.Error(err)
	}
	if got := w.rows(); strings.Contains(got, "shalb-dev-web") || !strings.Contains(got, "theirs") {
		t.Errorf("rows %s", got)
	}
	w.sync()
	if err := w.backend.Vanished(t.Context(), w.want.Service.Key); err != nil {
		t.Error(err)
	}
	if got := w.rows(); strings.Contains(got, "shalb-dev-web") {
		t.Errorf("rows %s", got)
	}
}

// The placer hears that the rows of a Service are gone, whoever has removed them: its
// address is free only then.
func TestPlacerHearsOfRows(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	key := w.want.Service.Key
	w.hears("they are written", func() { w.served() })
	w.backend.Forget("u1") // as when it is deleted
	w.hears("others have removed them", func() { w.server.Ctl("lb-del", "shalb-dev-web-tcp") })
	w.hears("nothing is left to be removed", func() {
		if err := w.backend.Vanished(t.Context(), key); err != nil {
			t.Error(err)
		}
	})
}

// A database that is away for a moment is nobody's concern. If it stays away, Services
// say so, and keep what they have.
func TestNorthboundUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := ovn.New(ovn.Options{Cluster: "c1", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, place: Place{Router: "r", Addresses: []netip.Addr{netip.MustParseAddr("168.119.17.52")}}, want: lb.Want{Service: service()}}
		w.want.Service.Ingress = []lb.Ingress{{IP: "168.119.17.52", Mode: lb.IPModeProxy}}
		w.backend = New(Options{DB: db, Placer: w})
		if out := w.sync(); !out.Passing || out.Reason.Code != "" || out.Again <= 0 {
			t.Errorf("at once: %+v", out)
		}
		<-time.After(awayGrace)
		if out := w.sync(); out.Passing || out.Reason.Code != NorthboundUnavailable || out.Ingress != nil || !strings.Contains(out.Reason.Text, "keeps 168.119.17.52") {
			t.Errorf("later: %+v", out)
		}
	})
}

// Backends are those of the port's name and protocol, and of the address's family. Terminating ones serve
// while there are no others.
func TestBackends(t *testing.T) {
	end := func(address string, ready, serving bool, port string, number uint16) lb.Endpoint {
		return lb.Endpoint{Address: netip.MustParseAddr(address), Ready: ready, Serving: serving, Ports: map[lb.EndpointPort]uint16{{Name: port, Protocol: "TCP"}: number}}
	}
	all := []lb.Endpoint{
		end("10.0.0.2", true, true, "http", 8080), end("10.0.0.1", true, true, "http", 8080), end("10.0.0.1", true, true, "http", 8080),
		end("10.0.0.3", false, true, "http", 8080), end("10.0.0.4", true, true, "other", 1), end("fd00::1", true, true, "http", 80), end("10.0.0.5", false, false, "http", 8080),
	}
	udp := end("10.0.0.6", true, true, "http", 8080)
	udp.Ports = map[lb.EndpointPort]uint16{{Name: "http", Protocol: "UDP"}: 8080}
	all = append([]lb.Endpoint{udp}, all...)
	show := func(endpoints []lb.Endpoint, f lb.Family) (out []string) {
		for _, b := range backends(endpoints, lb.EndpointPort{Name: "http", Protocol: "TCP"}, f) {
			out = append(out, b.String())
		}
		return out
	}
	for want, got := range map[string][]string{
		"10.0.0.1:8080 10.0.0.2:8080": show(all, lb.IPv4),
		"[fd00::1]:80":                show(all, lb.IPv6),
		"10.0.0.3:8080":               show(all[4:], lb.IPv4),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
