package agentsim

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/config"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// Options of an agent without a node.
type Options struct {
	REST *rest.Config
	Node string // name of its Node object, which has Addr
	Addr netip.Addr
	// Gossip is nil for real gossip, at Addr, with the key in a Secret of Namespace.
	Gossip    *Gossip
	Namespace string
	// MetalLBNamespace is where objects of MetalLB's kinds count.
	MetalLBNamespace string
	// Config is the agent's configuration; nil is the default.
	Config *config.Configuration
	// KubeVIPBGP is what kube-vip's variables say about BGP.
	KubeVIPBGP *config.KubeVIPBGP
	// Announced and Withdrawn hear of addresses that the agent begins and ceases to
	// announce. Kernel, Registry, Routers and these two are not needed.
	Announced, Withdrawn func(netip.Addr)

	Kernel   *link.Fake
	Routers  *Routers
	Registry prometheus.Registerer
}

// Run is agent.Run with a kernel, a network and gossip in memory.
func Run(ctx context.Context, o Options) error {
	log := slog.New(slog.DiscardHandler)
	if o.Kernel == nil {
		o.Kernel = link.NewFake(Eth0(o.Addr))
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Config == nil {
		o.Config = config.Default()
	}
	a := agent.Options{
		REST: o.REST, Log: log, NodeName: o.Node, Namespace: o.Namespace, GossipPort: member.DefaultPort, Version: Version, Registry: o.Registry,
		Sources:   sources.Options{REST: o.REST, Config: o.Config, Log: log, MetalLBNamespace: o.MetalLBNamespace, KubeVIPBGP: o.KubeVIPBGP, Node: o.Node},
		Announcer: newAnnouncer(o), Kernel: o.Kernel, Tables: &nft.Fake{},
		Ready: func() {}, Beat: func(time.Time) {},
	}
	if o.KubeVIPBGP != nil {
		a.Sources.KubeVIP = types.NamespacedName(config.KubeVIPMapFrom(func(string) string { return "" }))
	}
	if o.Routers != nil {
		a.Routers = o.Routers
	}
	if o.Gossip != nil {
		a.Group = o.Gossip.Start(o.Node, netip.AddrPortFrom(o.Addr, member.DefaultPort))
	}
	return agent.Run(ctx, a)
}

// Version is what the agents report as theirs.
const Version = "simulated"

// Eth0 is an interface that is up and has an address.
func Eth0(addr netip.Addr) link.Link {
	octets := addr.As16()
	return link.Link{Name: "eth0", Index: 2, Up: true, MAC: net.HardwareAddr(append([]byte{2, 0}, octets[12:]...)),
		Global: [2]bool{true, true}, Prefixes: []netip.Prefix{netip.PrefixFrom(addr, 16)}}
}

// announcer has a network on which nobody else is.
type announcer struct {
	announced, withdrawn func(netip.Addr)

	news    chan agent.News
	closed  chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

var _ agent.Announcer = (*announcer)(nil)

func newAnnouncer(o Options) *announcer {
	a := &announcer{announced: o.Announced, withdrawn: o.Withdrawn, news: make(chan agent.News), closed: make(chan struct{})}
	if a.announced == nil {
		a.announced = func(netip.Addr) {}
	}
	if a.withdrawn == nil {
		a.withdrawn = func(netip.Addr) {}
	}
	return a
}

func (*announcer) Protocol() string                                  { return "layer2" }
func (*announcer) Follow([]link.Link)                                {}
func (a *announcer) Own(addr netip.Addr, _ []string)                 { a.announced(addr) }
func (*announcer) Adopt(netip.Addr, []string)                        {}
func (a *announcer) Disown(addr netip.Addr, _ string)                { a.withdrawn(addr) }
func (*announcer) Commit()                                           {}
func (*announcer) Allow(string, time.Time)                           {}
func (*announcer) Defend(netip.Addr, string) bool                    { return true }
func (*announcer) Listen([]netip.Addr)                               {}
func (*announcer) Remind()                                           {}
func (*announcer) Survey(string, []agent.Question, []agent.Question) {}
func (a *announcer) News() <-chan agent.News                         { return a.news }

func (a *announcer) Probe(addr netip.Addr, _ []string, _ func(net.HardwareAddr) bool) {
	a.running.Go(func() {
		select {
		case a.news <- agent.News{Addr: addr, Probe: true}:
		case <-a.closed:
		}
	})
}

func (a *announcer) Close() {
	a.once.Do(func() { close(a.closed) })
	a.running.Wait()
}
