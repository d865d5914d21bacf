package ovn

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
)

func TestMain(m *testing.M) { leak.Main(m) }

// world is a real northbound database with a project, and a backend on it.
type world struct {
	t       *testing.T
	server  *northbound.Server
	backend *Backend
	place   Place
	want    lb.Want

	mu      sync.Mutex
	written []types.NamespacedName
	woken   []types.NamespacedName
	all     int
}

// Place is the same for all Services.
func (w *world) Place(context.Context, *lb.Want) (Place, error) { return w.place, nil }

// Written is noted.
func (w *world) Written(services ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, services...)
}

// hears does something, and waits until the placer has heard of the Service.
func (w *world) hears(what string, do func()) {
	w.t.Helper()
	w.mu.Lock()
	w.written = nil
	w.mu.Unlock()
	do()
	w.eventually("the placer hears: "+what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.written, w.want.Service.Key)
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := northbound.Start(t)
	s.Ctl("init")
	s.Ctl("lr-add", "shalb-dev", "--", "ls-add", "shalb-dev-default")
	s.Ctl("lrp-add", "shalb-dev", "inside", "02:00:00:00:00:01", "10.0.0.1/16", "--", "lrp-add", "shalb-dev", "shalb-dev-ext-public", "02:00:00:00:00:02", "168.119.17.51/28", "--", "lrp-set-gateway-chassis", "shalb-dev-ext-public", "ch1")
	s.Ctl("ls-add", "ext-public")
	endpoint, err := ovsdb.ParseEndpoint(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	db, err := ovn.New(ovn.Options{Cluster: "c1", Endpoints: []ovsdb.Endpoint{endpoint}, Log: slog.New(slog.NewTextHandler(process.LogOf(t, "the backend"), nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, server: s, place: Place{Router: "shalb-dev", Switches: []string{"shalb-dev-default"}, Gateway: "shalb-dev-ext-public",
		Addresses: []netip.Addr{netip.MustParseAddr("168.119.17.52")}}, want: lb.Want{Service: service()}}
	w.want.Endpoints = []lb.Endpoint{{Address: netip.MustParseAddr("10.0.0.11"), Ready: true, Serving: true, Ports: map[lb.EndpointPort]uint16{{Name: "http", Protocol: "TCP"}: 8080}}}
	w.connect()
	w.backend = New(Options{DB: db, Placer: w})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.backend.Run(ctx, w.wake) })
	t.Cleanup(func() { stop(); running.Wait() })
	w.eventually("connected", func() bool { return db.Away() == 0 })
	return w
}

// connect connects the router to the external switch.
func (w *world) connect() {
	w.t.Helper()
	const peer = "ext-public-shalb-dev"
	w.server.Ctl("lsp-add", "ext-public", peer, "--", "lsp-set-type", peer, "router", "--", "lsp-set-options", peer, "router-port=shalb-dev-ext-public")
}

// seen waits until the backend's copy of the database has what was written so far: changes
// arrive in their order, so it has the marker last.
func (w *world) seen() {
	w.t.Helper()
	w.server.Ctl("lr-add", "marker")
	w.eventually("the copy has the marker", func() bool {
		view, err := w.backend.db.Peek(&ovn.Service{Router: "marker"})
		return err == nil && !view.RouterMissing
	})
	w.server.Ctl("lr-del", "marker")
}

func service() lb.Service {
	s := lb.Service{Key: types.NamespacedName{Namespace: "shalb-dev", Name: "web"}, UID: "u1", LoadBalancer: true}
	s.Families = []lb.Family{lb.IPv4}
	s.Ports = []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}, Name: "http"}}
	return s
}

func (w *world) wake(keys ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(keys) == 0 {
		w.all++
	}
	w.woken = append(w.woken, keys...)
}

func (w *world) wakes() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.woken) }

func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	netns.Eventually(w.t, time.Minute, what, cond)
}

// sync looks at the Service, and lets it publish what came of it.
func (w *world) sync() lb.Outcome {
	w.t.Helper()
	out, err := w.backend.Sync(w.t.Context(), w.want)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &w.want.Service
	if !out.Passing && !w.want.DryRun {
		if out.Ingress != nil {
			s.Ingress = out.Ingress
		}
		if out.Condition == lb.ConditionSays {
			s.Says = &lb.Condition{Reason: out.Reason, True: out.Reason.Ready()}
		}
	}
	return out
}

// served looks at the Service until it is published.
func (w *world) served() lb.Outcome {
	w.t.Helper()
	var out lb.Outcome
	w.eventually("the Service is served", func() bool { out = w.sync(); return out.Reason.Ready() && !out.Passing })
	return out
}

func (w *world) rows() string {
	w.t.Helper()
	return strings.TrimSpace(w.server.Ctl("--no-headings", "--format=csv", "--data=bare", "--columns=name,vips,options", "list", "Load_Balancer"))
}

// told says whether an outcome tells a reason.
func told(out lb.Outcome, code lb.Code) bool {
	for _, r := range out.Tell {
		if r.Code == code {
			return true
		}
	}
	return false
}
