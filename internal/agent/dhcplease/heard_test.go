package dhcplease

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fakeHost is a loop that notes what leases say.
type fakeHost struct {
	task     elect.Task
	outcome  elect.Outcome
	isolated bool
	silent   bool // another agent speaks
	serving  []string
	using    []*lb.Request
	unusable string // why addresses cannot be used, if looked at thoroughly
	seen     elect.Address
	moved    []types.NamespacedName
	events   []string
	changes  int
	reads    bool // reports of agents can be read
	asked    int  // for them
}

func (f *fakeHost) Elect(_ member.Key, a elect.Address, _ *elect.Claim) (elect.Outcome, elect.Task) {
	f.seen = a
	return f.outcome, f.task
}

func (f *fakeHost) Serving(a *elect.Address, _ []types.NamespacedName) {
	a.NeedsLocal, a.ServingNodes = true, sets.New(f.serving...)
}

func (f *fakeHost) Isolated() bool                 { return f.isolated }
func (f *fakeHost) Settled(string, time.Time) bool { return true }
func (f *fakeHost) Interface(lb.Family, netip.Addr, *elect.Address) (string, int) {
	return "eth0", 2
}

func (f *fakeHost) Unusable(_ netip.Addr, thorough bool) string {
	if thorough {
		return f.unusable
	}
	return ""
}

func (f *fakeHost) Using(netip.Addr) []*lb.Request { return f.using }
func (f *fakeHost) Probing(netip.Addr) bool        { return false }
func (f *fakeHost) Moved(services ...types.NamespacedName) {
	f.moved = append(f.moved, services...)
}
func (f *fakeHost) Touched(netip.Addr) {}
func (f *fakeHost) Changed()           { f.changes++ }
func (f *fakeHost) Event(r *lb.Request, _ lb.PoolKey, reason lb.Reason) {
	f.events = append(f.events, r.Service.Name+" "+string(reason.Code)+": "+reason.Text)
}
func (f *fakeHost) NotElected(netip.Addr, elect.Outcome) {}
func (f *fakeHost) ReadReports() bool {
	f.asked++
	return f.reads
}
func (f *fakeHost) Speaks() bool { return !f.silent }

// silence is a port on which no server answers.
type silence struct{}

func (silence) Listen(lb.Family, uint32) (<-chan dhcp.Heard, func()) { return nil, func() {} }
func (silence) Send(lb.Family, []byte, *dhcp.Unicast) error          { return nil }
func (silence) Close() error                                         { return nil }

func newTestLeases(t *testing.T) (*Leases, *fakeHost) {
	t.Helper()
	host := &fakeHost{task: elect.Take, outcome: elect.Outcome{Owner: "a", Epoch: 7}}
	l := New(t.Context(), Options{Node: "a", Log: slog.New(slog.DiscardHandler), Host: host, Open: func(string) (Port, error) { return silence{}, nil }})
	t.Cleanup(l.Close)
	return l, host
}

func (l *Leases) name(service string) string { return l.Name(keyOfName(service), lb.IPv4) }

// A DHCP server that assigns what is somebody's gets it back; Services of others and
// nodes do not notice.
func TestLeasedAddressOfOthers(t *testing.T) {
	reported := func(l *Leases, service string) {
		l.reported[v1alpha1.LeaseOf{Service: "shop/" + service, Family: "IPv4"}] = v1alpha1.Lease{Address: given.String()}
	}
	using := func(l *Leases, h *fakeHost, w *Want, leases bool) {
		h.using = append(h.using, w.Request)
		if leases {
			l.Set(w.Request.Service, w)
		}
	}
	for name, c := range map[string]struct {
		before func(*Leases, *fakeHost)
		why    string
	}{
		"nobody's":    {func(*Leases, *fakeHost) {}, ""},
		"not usable":  {func(_ *Leases, h *fakeHost) { h.unusable = given.String() + " is the address of a node" }, "of a node"},
		"a Service's": {func(l *Leases, h *fakeHost) { using(l, h, wantOf("young", 1, "", 80), false) }, "of Service shop/young"},
		"an older lease": {func(l *Leases, h *fakeHost) {
			using(l, h, wantOf("old", 9, "", 80), true)
			reported(l, "old")
		}, "of Service shop/old"},
		"a younger lease": {func(l *Leases, h *fakeHost) {
			using(l, h, wantOf("young", 1, "", 80), true)
			reported(l, "young")
		}, ""},
		"what was published, and is not leased": {func(l *Leases, h *fakeHost) { using(l, h, wantOf("old", 9, "", 80), true) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, host := newTestLeases(t)
			c.before(l, host)
			me := wantOf("me", 5, "", 80)
			l.Set(me.Request.Service, me)
			l.decide(l.name("me"), time.Now())
			h := l.held[l.name("me")]
			if h == nil {
				t.Fatal("not asked for")
			}
			l.Heard(News{of: h, lease: &dhcp.Lease{Addr: given, Until: time.Now().Add(time.Hour), Server: "x"}})
			report := l.Report()
			if c.why == "" {
				if h.lease == nil || report[0].Address != given.String() || len(l.Addresses(keyOfName("me"))) != 1 {
					t.Errorf("not used: %+v", report)
				}
				return
			}
			if h.lease != nil || len(report) != 1 || report[0].Address != "" || len(l.Addresses(keyOfName("me"))) != 0 {
				t.Errorf("used: %+v", report)
			}
			// The client reports why it was declined.
			h.lease = &dhcp.Lease{Addr: given}
			why := l.unfit(h)
			h.lease = nil
			host.events = nil
			l.Heard(News{of: h, err: dhcp.Useless{Why: why}})
			l.Heard(News{of: h, err: dhcp.Useless{Why: why}})
			if e := host.events; len(e) != 1 || !strings.HasPrefix(e[0], "me "+string(lb.LeaseUnusable)) || !strings.Contains(e[0], c.why) {
				t.Errorf("events %v", e)
			}
		})
	}
}

// The claim of a lease outlives its last Service, until others have heard of that,
// too.
func TestParting(t *testing.T) {
	l, _ := newTestLeases(t)
	w, now := wantOf("web", 1, "", 80), time.Now()
	l.Set(w.Request.Service, w)
	l.Step(now)
	name := l.name("web")
	h := l.held[name]
	if h == nil {
		t.Fatal("not asked for")
	}
	l.Set(w.Request.Service, nil)
	l.Step(now)
	if c := l.Claims(); len(c) != 1 || c[0].Key != member.Lease(name) || c[0].Epoch != 7 || l.Len() > 0 || !h.release.Load() {
		t.Errorf("%+v", c)
	}
	l.Tick(now.Add(tombstoneTime / 2))
	same(t, "claims", len(l.Claims()), 1)
	l.Tick(now.Add(2 * tombstoneTime))
	same(t, "claims", len(l.Claims()), 0)
}

// A node that is cut off ends what it has, without giving it back.
func TestIsolated(t *testing.T) {
	l, host := newTestLeases(t)
	w := wantOf("web", 1, "", 80)
	l.Set(w.Request.Service, w)
	l.Step(time.Now())
	h := l.held[l.name("web")]
	host.isolated = true
	l.LookAll()
	l.Step(time.Now())
	if l.Len() > 0 || h.release.Load() || len(l.Claims()) > 0 {
		t.Errorf("%d leases, released %t", l.Len(), h.release.Load())
	}
}

// Services for which no node can ask have an event that says why, of one agent.
func TestLeaseNotAsked(t *testing.T) {
	for silent, want := range map[bool]int{false: 1, true: 0} {
		l, host := newTestLeases(t)
		host.silent, host.task, host.outcome = silent, elect.Nothing, elect.Outcome{Why: elect.NoNode}
		w := wantOf("me", 5, "", 80)
		l.Set(w.Request.Service, w)
		for range 2 {
			l.LookAll()
			l.Step(time.Now())
		}
		if len(host.events) != want || l.Len() > 0 {
			t.Errorf("events %v, want %d", host.events, want)
		}
	}
}

// Whatever serves, a node leases; one with an endpoint if any is on a node.
func TestCandidate(t *testing.T) {
	for nodes, want := range map[string]bool{"": false, "b": true} {
		l, host := newTestLeases(t)
		host.serving = []string{nodes}
		w := wantOf("web", 1, "", 80)
		w.Interface = "eth7"
		l.Set(w.Request.Service, w)
		l.Step(time.Now())
		c := host.seen
		if c.NeedsLocal != want || !c.AnyServing || *c.Family != lb.IPv4 || c.HashKey != l.name("web") {
			t.Errorf("served on %q: %+v", nodes, c)
		}
		same(t, "interfaces", c.InterfacesOn(nil), "[eth7]")
	}
}

// An interface that cannot be opened is tried again, and not at once.
func TestInterfaceThatCannotBeOpened(t *testing.T) {
	l, _ := newTestLeases(t)
	opened := 0
	l.o.Open = func(string) (Port, error) {
		if opened++; opened == 1 {
			return nil, errors.New("no such device")
		}
		return silence{}, nil
	}
	w, now := wantOf("web", 1, "", 80), time.Now()
	l.Set(w.Request.Service, w)
	for _, c := range []struct {
		after time.Duration
		held  int
	}{{0, 0}, {time.Second, 0}, {portRetry, 1}} {
		l.Step(now.Add(c.after))
		same(t, "held after "+c.after.String(), l.Len(), c.held)
		l.Tick(now.Add(c.after))
	}
	same(t, "opened", opened, 2)
}

// A lease that another node had is used at once by the next.
func TestLeaseThatWasHad(t *testing.T) {
	l, host := newTestLeases(t)
	w := wantOf("web", 1, "", 80)
	w.Published[lb.IPv4] = given
	l.Set(w.Request.Service, w)
	l.Inherit(func(a netip.Addr) (string, uint64, bool) { return "eth0", 3, a == given }, time.Now())
	if got, ok := l.Held(l.name("web")); !ok || got.Addr != given || !got.Before || got.Epoch != 3 || got.Interface != "eth0" {
		t.Errorf("%+v", got)
	}
	same(t, "moved", host.moved, "[shop/web]")
	l.InUse(given, []byte{2, 0, 0, 0, 0, 9})
	if got, _ := l.Held(l.name("web")); got.Addr.IsValid() {
		t.Errorf("used by another host, and kept: %+v", got)
	}
}

// Renewals are written when what is known falls behind, not each time.
func TestOutdated(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		written, until time.Duration
		want           bool
	}{
		{time.Hour, time.Hour + time.Second, false},
		{30 * time.Minute, time.Hour, true},
		{time.Hour, 0, true},
		{0, time.Hour, true},
		{0, 0, false},
	} {
		at := func(d time.Duration) time.Time {
			if d == 0 {
				return time.Time{}
			}
			return now.Add(d)
		}
		if got := outdated(at(c.written), at(c.until), now); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Taking a lease waits until it is known what agents report, but not for long.
func TestTakingWaitsForReports(t *testing.T) {
	for name, answers := range map[string]bool{"the API server answers": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			l, host := newTestLeases(t)
			host.reads = true
			me := wantOf("me", 5, "", 80)
			l.Set(me.Request.Service, me)
			now := time.Now()
			l.decide(l.name("me"), now)
			if l.held[l.name("me")] != nil || host.asked != 1 {
				t.Fatalf("taken before reports were read; asked %d times", host.asked)
			}
			later := now.Add(reportsPatience / 2)
			if answers {
				l.SetReported(map[v1alpha1.LeaseOf]v1alpha1.Lease{{Service: "shop/me", Family: "IPv4"}: {Service: "shop/me", Family: "IPv4", Address: given.String()}}, later)
				l.Step(later)
			} else {
				l.decide(l.name("me"), later)
				if l.held[l.name("me")] != nil {
					t.Fatal("did not wait")
				}
				l.decide(l.name("me"), now.Add(reportsPatience))
			}
			h := l.held[l.name("me")]
			if h == nil || host.asked != 1 {
				t.Fatalf("not taken; asked %d times", host.asked)
			}
			if answers != (h.had == given) {
				t.Errorf("begins with %v", h.had)
			}
		})
	}
}
