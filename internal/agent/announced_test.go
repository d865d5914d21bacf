package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
)

// words is an observer of MetalLB's pools that notes what it hears.
type words struct {
	nobody
	node      string
	announces map[string]bool
	presences map[types.NamespacedName]Presence
}

func (w *words) Observes(pool lb.PoolKey) bool { return pool.Dialect == metallb.Name }

func (w *words) Event(r lb.Reason) (code, component string) {
	return cmp.Or(metallb.EventName(r.Code), string(r.Code)), "metallb-speaker"
}

func (w *words) Announced(service types.NamespacedName, addr netip.Addr, _ string, yes bool) {
	text := fmt.Sprintf("%s %s", addr, service)
	if w.announces[text] = true; !yes {
		delete(w.announces, text)
	}
}

func (w *words) Presence(all map[types.NamespacedName]Presence) { w.presences = all }

// listener is an agent of which everything that is reported is heard.
type listener struct {
	*agent
	words *words
	log   *bytes.Buffer
}

func newListener(t *testing.T) *listener {
	t.Helper()
	l := &listener{agent: newTestAgent(t), words: &words{node: "a", announces: map[string]bool{}}, log: &bytes.Buffer{}}
	l.agent.log = slog.New(slog.NewJSONHandler(l.log, nil))
	l.observer, l.reporter.observer = l.words, l.words
	l.links[0].Prefixes = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("10.20.30.9/24")}
	return l
}

// rise has the node have an address that it got from last.
func (l *listener) rise(addr netip.Addr, last string, ifaces ...string) {
	l.held[addr] = &holding{up: true, epoch: 3, ifaces: ifaces}
	l.reportRaised(addr, last, time.Now())
	l.logChanges()
}

// heard returns the events since it was last asked, as "reason source service:
// message".
func (l *listener) heard() (out []string) {
	for _, e := range l.reporter.events {
		out = append(out, fmt.Sprintf("%s %s %s %s: %s", e.Type, e.Reason, e.Source.Component, e.InvolvedObject.Name, e.Message))
	}
	l.reporter.events = nil
	return out
}

// logged returns the log lines since it was last asked, from the event on.
func (l *listener) logged() (out []string) {
	for line := range strings.Lines(l.log.String()) {
		if _, rest, ok := strings.Cut(strings.TrimSpace(line), `"event":`); ok {
			out = append(out, rest)
		}
	}
	l.log.Reset()
	return out
}

// announced returns what the observer knows.
func (l *listener) announced() []string { return slices.Sorted(maps.Keys(l.words.announces)) }

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Events on Services of our own pools are in our words, those of an observer's pools
// in its words.
func TestReported(t *testing.T) {
	l := newListener(t)
	useMetalLB(t, l.directory, true, "{}")
	put(l.directory, serviceOf("edge", 1, "", 80, "10.20.30.1", "10.20.30.2"))

	l.rise(vip, "", "eth0")
	expect(t, "native", l.heard(), `Normal Announced fairlead-agent web: Address 192.0.2.10: announcing from node "a" with protocol "layer2" on eth0.`)
	expect(t, "native", l.logged(), `"serviceAnnounced","ips":["192.0.2.10"],"protocol":"layer2","service":"shop/web","pool":"","interfaces":["eth0"],"node":"a","from":"","epoch":3}`)

	l.rise(addrs("10.20.30.1")[0], "", "eth0", "eth1")
	expect(t, "MetalLB", l.heard(), `Normal nodeAssigned metallb-speaker edge: Address 10.20.30.1: announcing from node "a" with protocol "layer2" on eth0, eth1.`)
	expect(t, "MetalLB", l.logged(), `"serviceAnnounced","ips":["10.20.30.1"],"protocol":"layer2","service":"shop/edge","pool":"metallb/edge","interfaces":["eth0","eth1"],"node":"a","from":"","epoch":3}`)

	setAlive(l.agent, "b", false)
	l.rise(addrs("10.20.30.2")[0], "b", "eth0")
	expect(t, "moved", l.heard(), `Normal nodeAssigned metallb-speaker edge: Address 10.20.30.2 moved from b, announcing from node "a" with protocol "layer2": node b is unreachable.`)
	expect(t, "moved", l.logged(), `"serviceAnnounced","ips":["10.20.30.2"],"protocol":"layer2","service":"shop/edge","pool":"metallb/edge","interfaces":["eth0"],"node":"a","from":"b","epoch":3}`)

	l.reportRefused(addrs("10.20.30.1")[0], elect.Outcome{Why: elect.NotAdvertised})
	l.reportRefused(addrs("10.20.30.1")[0], elect.Outcome{Why: elect.NotAdvertised})
	expect(t, "not announced", l.heard(), "Warning announceFailed metallb-speaker edge: Address 10.20.30.1 is not announced. No node announces it, because there is no advertisement for it. Fix that, or change how the pool is advertised.")

	l.reportConflict(addrs("10.20.30.1")[0], stranger, "eth0")
	expect(t, "without a word of MetalLB's", l.heard(), "Warning AddressConflict metallb-speaker edge: Address 10.20.30.1 is used by another host on eth0 of node a, with MAC 02:00:00:00:00:09. Give that host another address, or exclude this one from the pool.")

	expect(t, "announced", l.announced(), "10.20.30.1 shop/edge", "10.20.30.2 shop/edge", "192.0.2.10 shop/web")
	for _, addr := range addrs("10.20.30.1", "10.20.30.2") {
		l.held[addr].ifaces = nil // no kernel here
		l.lower(addr)
	}
	l.logChanges()
	expect(t, "withdrawn", l.logged(), `"serviceWithdrawn","ips":["10.20.30.1","10.20.30.2"],"protocol":"layer2","service":"shop/edge","pool":"metallb/edge","interfaces":null,"node":"a"}`)
	expect(t, "withdrawn", l.heard())
	expect(t, "announced", l.announced(), "192.0.2.10 shop/web")
}

// A Service that comes to live on a shared address is told as well, and once.
func TestTenantsComeAndGo(t *testing.T) {
	l := newListener(t)
	useMetalLB(t, l.directory, true, "{}")
	addr := addrs("10.20.30.1")[0]
	share := func(name string, port int32, uid types.UID) {
		s := serviceOf(name, int(100-port), "", port, addr.String())
		s.Annotations = map[string]string{metallb.AnnotationShare: "k"}
		s.UID = uid
		put(l.directory, s)
		l.refreshTenants(addr)
		l.logChanges()
	}
	share("one", 80, "1")
	l.rise(addr, "", "eth0")
	l.heard()
	l.logged()
	share("two", 81, "2")
	told := `Normal nodeAssigned metallb-speaker two: Address 10.20.30.1: announcing from node "a" with protocol "layer2" on eth0.`
	line := `"ips":["10.20.30.1"],"protocol":"layer2","service":"shop/two","pool":"metallb/edge","interfaces":["eth0"],"node":"a"`
	expect(t, "came", l.heard(), told)
	expect(t, "came", l.logged(), `"serviceAnnounced",`+line+`,"from":"","epoch":3}`)
	share("two", 81, "2")
	expect(t, "nothing new", append(l.heard(), l.logged()...))
	l.directory.setService(types.NamespacedName{Namespace: "shop", Name: "two"}, nil)
	l.refreshTenants(addr)
	l.logChanges()
	expect(t, "went", l.logged(), `"serviceWithdrawn",`+line+"}")
	expect(t, "went", l.heard())
	share("two", 81, "3") // of the same name
	expect(t, "came again", l.heard(), told)

	// An edit of the pool is no news for Services.
	useMetalLB(t, l.directory, false, "{}")
	l.logged()
	l.refreshTenants(addr)
	l.logChanges()
	expect(t, "out of pool", append(l.heard(), l.logged()...))
}

// Services that share an address of which one cannot be announced.
func TestTenantThatCannotBeAnnounced(t *testing.T) {
	l := newListener(t)
	useMetalLB(t, l.directory, true, "{serviceSelectors: [{matchLabels: {app: foo}}]}", "{}")
	addr := addrs("10.20.30.1")[0]
	for i, name := range []string{"foo", "bar"} {
		s := serviceOf(name, 2-i, "", int32(80+i), addr.String())
		s.Labels, s.Annotations = map[string]string{"app": name}, map[string]string{metallb.AnnotationShare: "k"}
		put(l.directory, s)
	}
	l.rise(addr, "", "eth0")
	expect(t, "told", l.heard(),
		"Warning announceFailed metallb-speaker foo: Address 10.20.30.1 is not announced. No node announces it, because its Service may share it with others, and an advertisement with serviceSelectors applies, which cannot be for one and not for another. Fix that, or change how the pool is advertised.",
		`Normal nodeAssigned metallb-speaker bar: Address 10.20.30.1: announcing from node "a" with protocol "layer2" on eth0.`)
	l.refreshTenants(addr)
	expect(t, "told again", l.heard())
}

// An agent that follows another one on its node logs what it announces, and
// tells nobody.
func TestNothingIsNewAfterAnUpgrade(t *testing.T) {
	l := newListener(t)
	l.links[0].Prefixes = nil
	l.held[vip] = &holding{up: true, epoch: 1, ifaces: []string{"eth0"}, inherited: true}
	l.refreshTenants(vip)
	l.logChanges()
	expect(t, "events", l.heard())
	expect(t, "log", l.logged(), `"serviceAnnounced","ips":["192.0.2.10"],"protocol":"layer2","service":"shop/web","pool":"","interfaces":["eth0"],"node":"a","from":"","epoch":1}`)
}

// A node that has no address in a network with the address says so, once.
func TestOffSubnet(t *testing.T) {
	l := newListener(t)
	l.links[0].Prefixes = []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}
	l.links = append(l.links, link.Link{Name: "eth1", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}) // which is down
	l.rise(vip, "", "eth0")
	off := "Warning OffSubnet fairlead-agent web: Address 192.0.2.10 is in none of the networks of node a, which announces it on eth0. Replies may take another route and be dropped. Give the node an address in that network."
	expect(t, "off", l.heard(), `Normal Announced fairlead-agent web: Address 192.0.2.10: announcing from node "a" with protocol "layer2" on eth0.`, off)
	l.refreshTenants(vip)
	expect(t, "still off", l.heard())
	l.links[1].Up = true
	l.refreshTenants(vip)
	expect(t, "no longer", l.heard())
	l.links[1].Up = false
	l.refreshTenants(vip)
	expect(t, "again", l.heard(), off)
}

// Why an address is no longer with a node.
func TestWhyItMoved(t *testing.T) {
	for want, change := range map[string]func(*agent, *elect.Node){
		"node b is unreachable":                     func(_ *agent, n *elect.Node) { n.Alive = false },
		"the agent of node b leaves":                func(_ *agent, n *elect.Node) { n.Leaving = true },
		"node b is cordoned":                        func(_ *agent, n *elect.Node) { n.Cordoned = true },
		"node b has no healthy kube-proxy":          func(_ *agent, n *elect.Node) { n.ProxyHealthy = false },
		"node b has no interface for it that is up": func(_ *agent, n *elect.Node) { n.Interfaces[lb.IPv4].Delete("eth0") },
		"node b is not selected by any nodeSelectors": func(a *agent, _ *elect.Node) {
			useMetalLB(t, a.directory, false, "{"+on("a")+"}")
			s := serviceOf("web", 1, "", 80, vip.String())
			s.Annotations = map[string]string{metallb.AnnotationAllocatedFrom: "edge"}
			put(a.directory, s)
		},
		"node a is preferred": func(*agent, *elect.Node) {},
	} {
		a := newTestAgent(t)
		for i := range a.voters {
			if a.voters[i].Name == "b" {
				change(a, &a.voters[i])
			}
		}
		if got := a.whyFrom("b", vip); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// How this node announces Services of MetalLB's pools, and who else does.
func TestPresence(t *testing.T) {
	l := newListener(t)
	useMetalLB(t, l.directory, true, "{interfaces: [eth0, eth1]}")
	dual := serviceOf("dual", 1, "", 80, "10.20.30.1", "10.20.30.2")
	put(l.directory, dual)
	v, w := addrs("10.20.30.1")[0], addrs("10.20.30.2")[0]
	l.rise(vip, "", "eth0") // of a native pool
	l.rise(v, "", "eth0")
	presences := func() string {
		l.presenceDirty = true
		l.reportPresence()
		return fmt.Sprint(l.words.presences)
	}
	same(t, "one address", presences(), "map[shop/dual:{[eth0] map[]}]")
	l.claims[member.Addr(w)] = []member.Claim{{Node: "b", Up: true}, {Node: "c"}, {Node: "dead", Up: true}}
	same(t, "another node has the other", presences(), "map[shop/dual:{[eth0] map[b:{}]}]")
	l.claims[member.Addr(w)] = nil
	l.rise(w, "b", "eth0", "eth1")
	same(t, "both", presences(), "map[shop/dual:{[eth0 eth1] map[]}]")
	useMetalLB(t, l.directory, true, "{}")
	same(t, "on all interfaces", presences(), "map[shop/dual:{[] map[]}]")
	l.held[v].ifaces, l.held[w].ifaces = nil, nil
	l.lower(v)
	l.lower(w)
	same(t, "none", presences(), "map[]")
}
