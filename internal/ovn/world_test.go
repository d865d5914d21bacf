package ovn

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"fairlead.io/internal/ovsdb"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is for a machine that does other things as well.
const patience = time.Minute

// project makes the router and the switches of a project, as kube-ovn does.
func project(s *northbound.Server, name string) {
	s.Ctl("--may-exist", "lr-add", name)
	s.Ctl("--may-exist", "ls-add", name+"-default")
	s.Ctl("lrp-add", name, name+"-inside", "02:00:00:00:00:01", "10.0.0.1/16", "fd00::1/64")
	s.Ctl("lrp-add", name, name+"-ext-public", "02:00:00:00:00:02", "168.119.17.51/28", "2001:db8::51/64")
	s.Ctl("lrp-set-gateway-chassis", name+"-ext-public", "ch1", "10")
	outside(s, name)
}

// outside connects the router of a project to its external switch.
func outside(s *northbound.Server, name string) {
	peer := "ext-public-" + name
	s.Ctl("--may-exist", "ls-add", "ext-public", "--", "--may-exist", "lsp-add", "ext-public", peer, "--",
		"lsp-set-type", peer, "router", "--", "lsp-set-options", peer, "router-port="+name+"-ext-public")
}

// web is a Service that is used by most tests.
func web() *Service {
	return &Service{Namespace: "shalb-dev", Name: "etcd-lb", UID: "u1", Router: "shalb-dev", Switches: []string{"shalb-dev-default"},
		Listeners: []Listener{listener("tcp", "168.119.17.52:2379", "10.0.0.11:2379", "10.0.0.12:2379")}}
}

func listener(protocol, vip string, backends ...string) Listener {
	l := Listener{Protocol: protocol, VIP: netip.MustParseAddrPort(vip)}
	for _, b := range backends {
		l.Backends = append(l.Backends, netip.MustParseAddrPort(b))
	}
	return l
}

// keeper keeps Services as they are to be, as a controller does: it looks at each that is
// reported, and commits what has to be done.
type keeper struct {
	t  testing.TB
	db *DB

	mu       sync.Mutex
	services map[string]*Service
	views    map[string]*View
	looks    map[string]int
	commits  int
	woken    map[string]int
	strays   set
	queue    workqueue.TypedInterface[string]
	stop     func()
}

func keep(t testing.TB, cluster string, endpoints []string, services ...*Service) *keeper {
	return keepWith(t, cluster, endpoints, ovsdb.TLSFiles{}, services...)
}

func keepWith(t testing.TB, cluster string, endpoints []string, files ovsdb.TLSFiles, services ...*Service) *keeper {
	t.Helper()
	parsed, err := ovsdb.ParseEndpoints(strings.Join(endpoints, ","))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(process.LogOf(t, "the database's client"), &slog.HandlerOptions{Level: slog.LevelDebug}))
	db, err := New(Options{Cluster: cluster, Endpoints: parsed, TLS: files, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, db: db, services: map[string]*Service{}, views: map[string]*View{}, looks: map[string]int{}, woken: map[string]int{}, strays: set{}, queue: workqueue.NewTyped[string]()}
	for _, s := range services {
		k.services[s.Key()] = s
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { db.Run(ctx) })
	running.Go(func() { db.Watch(ctx, k.wake, k.stray) })
	for range 8 {
		running.Go(func() {
			for {
				key, end := k.queue.Get()
				if end {
					return
				}
				k.sync(ctx, key)
				k.queue.Done(key)
			}
		})
	}
	k.stop = func() { stop(); k.queue.ShutDown(); running.Wait() }
	t.Cleanup(k.stop)
	return k
}

func (k *keeper) wake(keys ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(k.services))
	}
	for _, key := range keys {
		k.woken[key]++
		k.queue.Add(key)
	}
}

func (k *keeper) stray(keys ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		k.strays[key] = struct{}{}
	}
}

// want changes what a Service is to have.
func (k *keeper) want(s *Service) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.services[s.Key()] = s
	k.queue.Add(s.Key())
}

func (k *keeper) sync(ctx context.Context, key string) {
	k.mu.Lock()
	s := k.services[key]
	k.mu.Unlock()
	if s == nil {
		return // a test looks at it itself
	}
	v, err := k.db.Look(s)
	if err == nil && !v.Plan.Empty() {
		k.mu.Lock()
		k.commits++
		k.mu.Unlock()
		_, err = k.db.Commit(ctx, key, v.Plan)
		if err != nil && ctx.Err() == nil {
			k.queue.Add(key) // as a controller retries
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks[key]++
	if err == nil {
		k.views[key] = v
	}
}

// settled waits until all Services are as they are to be.
func (k *keeper) settled(what string) {
	k.t.Helper()
	k.eventually("all is as it is to be: "+what, func() bool {
		for _, s := range k.all() {
			if v, err := k.db.Peek(s); err != nil || !v.Plan.Empty() || v.Blocked() {
				return false
			}
		}
		return true
	})
}

// healed does something, then waits until the Services were not as they are to be
// and are again: they are woken.
func (k *keeper) healed(what string, do func()) {
	k.t.Helper()
	before := k.wakes()
	do()
	k.eventually("somebody is woken: "+what, func() bool { return k.wakes() > before })
	k.settled(what)
}

func (k *keeper) wakes() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.woken {
		n += w
	}
	return n
}

func (k *keeper) all() []*Service {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*Service
	for _, s := range k.services {
		out = append(out, s)
	}
	return out
}

func (k *keeper) view(s *Service) *View {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.views[s.Key()]
}

func (k *keeper) eventually(what string, cond func() bool) {
	k.t.Helper()
	netns.Eventually(k.t, patience, what, cond)
}

// columns of the load balancers with a name, as ovn-nbctl prints them.
func columns(s *northbound.Server, name, which string) string {
	return strings.TrimSpace(s.Ctl("--no-headings", "--format=csv", "--data=bare", "--columns="+which, "find", "Load_Balancer", "name="+name))
}

// attached are the names of load balancers on a router or switch.
func attached(s *northbound.Server, table, name string) int {
	return len(strings.Fields(strings.ReplaceAll(s.Ctl("--bare", "--columns=load_balancer", "find", table, "name="+name), ",", " ")))
}

func many(n int) []*Service {
	out := make([]*Service, n)
	for i := range out {
		out[i] = &Service{Namespace: "shalb-dev", Name: fmt.Sprintf("s%04d", i), UID: fmt.Sprint(i), Router: "shalb-dev", Switches: []string{"shalb-dev-default"},
			Listeners: []Listener{listener("tcp", fmt.Sprintf("168.119.17.52:%d", 10000+i), "10.0.0.11:80")}}
	}
	return out
}
