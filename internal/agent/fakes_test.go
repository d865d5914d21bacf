package agent

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/config"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// fakeCluster is a cache of objects.
type fakeCluster struct {
	mu      sync.Mutex
	objects []client.Object
}

// put adds or replaces objects.
func (c *fakeCluster) put(objects ...client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range objects {
		c.drop(o)
		c.objects = append(c.objects, o)
	}
}

func (c *fakeCluster) delete(o client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(o)
}

func (c *fakeCluster) drop(o client.Object) {
	c.objects = slices.DeleteFunc(c.objects, func(x client.Object) bool {
		return kindOf(x) == kindOf(o) && client.ObjectKeyFromObject(x) == client.ObjectKeyFromObject(o)
	})
}

func kindOf(o any) string {
	switch o.(type) {
	case *corev1.Service, *corev1.ServiceList:
		return "Service"
	case *corev1.Node, *corev1.NodeList:
		return "Node"
	case *discoveryv1.EndpointSlice:
		return "EndpointSlice"
	case *v1alpha1.Agent, *v1alpha1.AgentList:
		return "Agent"
	case *v1alpha1.Pool, *v1alpha1.PoolList:
		return "Pool"
	}
	return ""
}

func (c *fakeCluster) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if kindOf(o) != kindOf(out) || client.ObjectKeyFromObject(o) != key {
			continue
		}
		switch o := o.(type) {
		case *corev1.Service:
			*out.(*corev1.Service) = *o
		case *corev1.Node:
			*out.(*corev1.Node) = *o
		case *discoveryv1.EndpointSlice:
			*out.(*discoveryv1.EndpointSlice) = *o
		case *v1alpha1.Agent:
			*out.(*v1alpha1.Agent) = *o
		}
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.String())
}

func (c *fakeCluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		switch list := list.(type) {
		case *corev1.ServiceList:
			if s, ok := o.(*corev1.Service); ok {
				list.Items = append(list.Items, *s)
			}
		case *corev1.NodeList:
			if n, ok := o.(*corev1.Node); ok {
				list.Items = append(list.Items, *n)
			}
		case *v1alpha1.AgentList:
			if a, ok := o.(*v1alpha1.Agent); ok {
				list.Items = append(list.Items, *a)
			}
		case *v1alpha1.PoolList:
			if p, ok := o.(*v1alpha1.Pool); ok {
				list.Items = append(list.Items, *p)
			}
		}
	}
	return nil
}

// fakeGroup is the other agents.
type fakeGroup struct {
	mu      sync.Mutex
	self    string
	members map[string]member.Meta
	died    map[string]time.Time
	others  map[member.Key][]member.Claim
	mine    []member.Claim
	// claimed are the keys whose claims have changed, turned is that more has.
	claimed map[member.Key]bool
	turned  bool
	left    bool
	changed chan struct{}
	// published is how often own claims were set.
	published int
	mail      chan struct{}
	mailed    []member.Letter // to this node
	posted    []member.Letter // by this node; From is to whom
}

func newFakeGroup(self string, others ...string) *fakeGroup {
	g := &fakeGroup{self: self, members: map[string]member.Meta{}, died: map[string]time.Time{}, others: map[member.Key][]member.Claim{}, claimed: map[member.Key]bool{}, changed: make(chan struct{}, 1), mail: make(chan struct{}, 1)}
	for _, name := range append(others, self) {
		g.members[name] = member.Meta{Eligible: true, Links: []member.Link{{Name: "eth0", V4: true, V6: true}}, MACs: []net.HardwareAddr{macs[name]}}
	}
	return g
}

// change changes what the others say.
func (g *fakeGroup) change(do func()) {
	g.tell(func() {
		g.turned = true
		do()
	})
}

func (g *fakeGroup) tell(do func()) {
	g.mu.Lock()
	do()
	g.mu.Unlock()
	g.signal()
}

// die has a member die, as it was; claims says what it had.
func (g *fakeGroup) die(name string) {
	g.change(func() {
		delete(g.members, name)
		g.died[name] = time.Now()
		for key, claims := range g.others {
			for i := range claims {
				if claims[i].Node == name {
					g.others[key][i].Standing = member.Orphaned
				}
			}
		}
	})
}

// claim has another node claim an address.
func (g *fakeGroup) claim(addr netip.Addr, claims ...member.Claim) {
	g.tell(func() {
		g.others[member.Addr(addr)] = claims
		g.claimed[member.Addr(addr)] = true
	})
}

// own returns what this node claims of an address.
func (g *fakeGroup) own(addr netip.Addr) (member.Claim, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.mine {
		if c.Key == member.Addr(addr) {
			return c, true
		}
	}
	return member.Claim{}, false
}

func (g *fakeGroup) Addr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:7947") }

func (g *fakeGroup) Members() (out []member.Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, meta := range g.members {
		out = append(out, member.Member{Name: name, Meta: meta})
	}
	return out
}

func (g *fakeGroup) Claims() map[member.Key][]member.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := maps.Clone(g.others)
	for key := range out {
		out[key] = slices.Clone(out[key])
	}
	for _, c := range g.mine {
		out[c.Key] = append(out[c.Key], c)
	}
	return out
}

func (g *fakeGroup) SetMeta(m member.Meta) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[g.self] = m
}

func (g *fakeGroup) SetClaims(own []member.Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mine = slices.Clone(own)
	g.published++
	g.turned = true
	g.signal()
}

func (g *fakeGroup) ChangeClaims(own []member.Claim, released []member.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range own {
		released = append(released, c.Key)
	}
	g.mine = append(slices.DeleteFunc(g.mine, func(c member.Claim) bool { return slices.Contains(released, c.Key) }), own...)
	g.published++
	for _, key := range released {
		g.claimed[key] = true
	}
	g.signal()
}

// signal says that something has changed, as the real one does of own claims, too.
func (g *fakeGroup) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *fakeGroup) Changes() (members bool, claims map[member.Key][]member.Claim) {
	all := g.Claims()
	g.mu.Lock()
	defer g.mu.Unlock()
	claims = map[member.Key][]member.Claim{}
	for key := range g.claimed {
		claims[key] = all[key]
	}
	members, g.turned = g.turned, false
	clear(g.claimed)
	return members, claims
}

func (g *fakeGroup) Changed() <-chan struct{} { return g.changed }
func (g *fakeGroup) Synced() bool             { return true }

func (g *fakeGroup) Died(node string) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.died[node]
	return at, ok
}

func (g *fakeGroup) Join(context.Context, []netip.AddrPort) (int, error) { return 0, nil }

func (g *fakeGroup) Leave(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
	return nil
}

func (g *fakeGroup) Close() {}

// Post keeps letters; mailed has those for this node.
func (g *fakeGroup) Post(to string, body []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.posted = append(g.posted, member.Letter{From: to, Body: body})
	return nil
}

func (g *fakeGroup) Mail() <-chan struct{} { return g.mail }

func (g *fakeGroup) Letters() []member.Letter {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.mailed
	g.mailed = nil
	return out
}

// write has another node write to this one.
func (g *fakeGroup) write(from string, body []byte) {
	g.mu.Lock()
	g.mailed = append(g.mailed, member.Letter{From: from, Body: body})
	g.mu.Unlock()
	select {
	case g.mail <- struct{}{}:
	default:
	}
}

// fakeAnnouncer notes what is announced.
type fakeAnnouncer struct {
	mu     sync.Mutex
	owned  map[netip.Addr][]string
	until  map[string]time.Time
	hosts  map[netip.Addr]net.HardwareAddr // that use an address
	probes []netip.Addr
	silent bool // a lost cable: nobody answers
	asked  int  // surveys
	heard  int  // reminders
	news   chan News
	commit func() // if set, called by Commit
	closed chan struct{}
	once   sync.Once
	ran    sync.WaitGroup
}

func newFakeAnnouncer() *fakeAnnouncer {
	return &fakeAnnouncer{owned: map[netip.Addr][]string{}, until: map[string]time.Time{}, hosts: map[netip.Addr]net.HardwareAddr{}, news: make(chan News), closed: make(chan struct{})}
}

func (f *fakeAnnouncer) Protocol() string   { return "layer2" }
func (f *fakeAnnouncer) Follow([]link.Link) {}
func (f *fakeAnnouncer) News() <-chan News  { return f.news }

func (f *fakeAnnouncer) Commit() {
	if f.commit != nil {
		f.commit()
	}
}

func (f *fakeAnnouncer) Own(addr netip.Addr, ifaces []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned[addr] = slices.Clone(ifaces)
}

func (f *fakeAnnouncer) Adopt(addr netip.Addr, ifaces []string) { f.Own(addr, ifaces) }

func (f *fakeAnnouncer) Disown(addr netip.Addr, iface string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned[addr] = slices.DeleteFunc(f.owned[addr], func(x string) bool { return x == iface })
	if len(f.owned[addr]) == 0 {
		delete(f.owned, addr)
	}
}

func (f *fakeAnnouncer) Allow(iface string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[iface] = until
}

// announces says whether an address is announced, and may be.
func (f *fakeAnnouncer) announces(addr netip.Addr, iface string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.owned[addr], iface) && time.Now().Before(f.until[iface])
}

func (f *fakeAnnouncer) Probe(addr netip.Addr, ifaces []string, ours func(net.HardwareAddr) bool) {
	f.mu.Lock()
	f.probes = append(f.probes, addr)
	n := News{Addr: addr, Probe: true}
	if mac := f.hosts[addr]; mac != nil && !ours(mac) && len(ifaces) > 0 {
		n.MAC, n.Interface = mac, ifaces[0]
	}
	f.mu.Unlock()
	f.ran.Go(func() { f.say(n) })
}

func (f *fakeAnnouncer) Listen([]netip.Addr) {}

func (f *fakeAnnouncer) Remind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard++
}

// Survey answers after the time that a real one takes.
func (f *fakeAnnouncer) Survey(iface string, addrs, witnesses []Question) {
	f.mu.Lock()
	f.asked++
	f.mu.Unlock()
	f.ran.Go(func() {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-f.closed:
			return
		}
		f.mu.Lock()
		n := News{Survey: true, Interface: iface, Answers: Answers{}}
		for _, q := range addrs {
			n.Asked = append(n.Asked, q.Addr)
		}
		for _, q := range slices.Concat(addrs, witnesses) {
			if mac := f.hosts[q.Addr]; mac != nil && !f.silent {
				n.Answers[q.Addr] = mac
			}
		}
		f.mu.Unlock()
		f.say(n)
	})
}

// use has a host use an address, which says so.
func (f *fakeAnnouncer) use(addr netip.Addr, mac net.HardwareAddr) {
	f.mu.Lock()
	f.hosts[addr] = mac
	f.mu.Unlock()
	f.say(News{Addr: addr, MAC: mac, Interface: "eth0"})
}

func (f *fakeAnnouncer) say(n News) {
	select {
	case f.news <- n:
	case <-f.closed:
	}
}

func (f *fakeAnnouncer) Defend(netip.Addr, string) bool { return false }

func (f *fakeAnnouncer) Close() {
	f.once.Do(func() { close(f.closed) })
	f.ran.Wait()
}

// fakeParts are what a loop needs that has neither root nor a cluster.
func fakeParts(node string, cluster *fakeCluster) parts {
	o := sources.Options{Config: config.Default(), Log: slog.New(slog.DiscardHandler), MetalLBNamespace: "metallb-system"}
	return parts{
		node: node, log: slog.New(slog.DiscardHandler), cluster: cluster, sources: sources.New(o, cluster),
		kernel: link.NewFake(eth0(node)), tables: &nft.Fake{}, announcer: newFakeAnnouncer(), observer: nobody{},
		reporter: newReporter(node, nil, nil, slog.New(slog.DiscardHandler), nobody{}), registry: prometheus.NewRegistry(),
	}
}

func eth0(node string) link.Link {
	return link.Link{Name: "eth0", Index: 2, Up: true, MAC: macs[node], Global: [2]bool{true, true}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
}
