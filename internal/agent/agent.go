package agent

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/agent/carrying"
	"fairlead.io/internal/agent/dhcplease"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// agent is the state of the loop; only the loop touches it.
type agent struct {
	node, version      string
	log                *slog.Logger
	gossipPort         uint16
	ignoreExcludeLabel bool
	beat               func(time.Time)

	// What the loop works with.
	cluster   client.Reader // a cache in memory
	sources   *sources.Reader
	inbox     *inbox
	group     Group // nil without gossip
	peers     *peers
	known     *known
	reports   *reports // nil if nobody leases
	kernel    Kernel
	tables    *tables
	announcer Announcer
	leases    *dhcplease.Leases
	proxy     *proxyHealth
	around    *surroundings
	api       *apiHealth
	poke      chan struct{} // health has changed
	reporter  *reporter
	observer  Observer
	metrics   *metrics
	// hasSuccessor says whether another agent waits on this node to follow this one.
	hasSuccessor func() bool
	background   context.Context // ends with the agent
	running      sync.WaitGroup

	directory *directory
	world
	held map[netip.Addr]*holding
	had  map[netip.Addr]string // the node that had an address last, as far as known
	// fading is until when packets are filtered to an address that nobody claims.
	fading map[netip.Addr]time.Time
	// refused is why no node can have an address, as was reported.
	refused map[netip.Addr]string
	routing
	connections
	strays *strays
	pending
	reported

	leaving time.Time // since when
	retired bool      // it has left, and no other agent follows on this node
	failure error     // that the loop ends with
}

// world is what is known of nodes: this one and the others.
type world struct {
	links  []link.Link
	scope  scope      // which of them are used
	labels labels.Set // of this node
	voters []elect.Node
	claims map[member.Key][]member.Claim
	// macs by node: of dead ones, too, which may come back before they are known to be
	// alive.
	macs     map[string][]net.HardwareAddr
	members  map[string]member.Meta
	others   int             // members besides this one
	solitude *solitude       // nil unless all others are lost
	presumed map[string]bool // see presume
	isolated bool
	started  bool // the caches are filled
	synced   bool
	patience time.Time // until then peers are waited for
	// quietUntil: before that nothing is taken; settling is the same for single
	// interfaces. postponed: something would have been.
	quietUntil time.Time
	settling   map[string]time.Time
	postponed  bool
}

// pending is what is to be done with the next turn of the loop.
type pending struct {
	dirty, gone                        map[netip.Addr]bool
	allDirty, linksDirty, membersDirty bool
	// claimsDirty are addresses of which this node may claim something else now.
	claimsDirty                map[netip.Addr]bool
	allClaimsDirty             bool
	reportDirty, presenceDirty bool
	rising, falling, lowering  []netip.Addr
	came                       map[netip.Addr]string // from which node
	changes                    []change              // that are logged with the turn
}

// parts are what a loop is made of; Run opens the real ones.
type parts struct {
	node      string
	version   string
	log       *slog.Logger
	cluster   client.Reader
	sources   *sources.Reader
	kernel    Kernel
	tables    Tables
	announcer Announcer
	routers   Routers // nil: none
	observer  Observer
	reporter  *reporter
	registry  prometheus.Registerer
	excluded  *regexp.Regexp
	// forwards says what kube-proxy forwards: nft.Forwards; nil if nobody knows.
	forwards func(map[netip.Addr][]lb.Port) (forwarded map[netip.Addr]bool, known bool)
	// removeStrays is conntrack.RemoveStrays; nil: nothing is removed.
	removeStrays func(of func(netip.Addr) bool) (int, error)
	// carrying keeps connections of addresses that move; nil: they are not kept. keep is for how
	// long, unless a pool says, and grace how long those of this node are waited for.
	carrying    *carrying.Carrying
	keep, grace time.Duration
	// openDHCP opens an interface for DHCP; nil is the real one.
	openDHCP func(iface string) (dhcplease.Port, error)
}

func newAgent(background context.Context, p parts) *agent {
	a := &agent{
		node: p.node, version: p.version, log: p.log, background: background, cluster: p.cluster, sources: p.sources, inbox: newInbox(),
		peers: &peers{}, known: newKnown(), kernel: p.kernel, announcer: p.announcer, observer: p.observer, reporter: p.reporter,
		metrics: newMetrics(p.registry), poke: make(chan struct{}, 1), beat: func(time.Time) {}, hasSuccessor: func() bool { return false },
		held: map[netip.Addr]*holding{}, had: map[netip.Addr]string{}, fading: map[netip.Addr]time.Time{}, refused: map[netip.Addr]string{},
		world: world{scope: scope{excluded: cmp.Or(p.excluded, inward), named: map[string]bool{}}, claims: map[member.Key][]member.Claim{},
			macs: map[string][]net.HardwareAddr{}, members: map[string]member.Meta{}, settling: map[string]time.Time{}},
		pending: pending{dirty: map[netip.Addr]bool{}, gone: map[netip.Addr]bool{}, came: map[netip.Addr]string{}, claimsDirty: map[netip.Addr]bool{},
			linksDirty: true, membersDirty: true, reportDirty: true},
		reported: reported{lostNodes: sets.New[string](), silent: map[netip.Addr]silence{}, speaking: map[netip.Addr]bool{}, silentBefore: map[netip.Addr]time.Time{}, nodeAddrs: map[netip.Addr]string{}},
	}
	a.connections = connections{carrying: p.carrying, keepDefault: p.keep, grace: p.grace, preparing: map[netip.Addr]preparation{}}
	a.reportTimer = time.NewTimer(0)
	a.strays = &strays{log: p.log, remove: p.removeStrays}
	if a.carrying != nil {
		p.registry.MustRegister(newCarriedPackets(a.carrying))
	}
	if a.observer == nil {
		a.observer = nobody{}
	}
	a.routing = routing{routers: p.routers, forwarding: newForwarding(a.poke, p.forwards), routed: map[netip.Addr]*routedAddr{}, announced: map[netip.Prefix]time.Time{}, guarded: map[netip.Prefix]time.Time{},
		drains: drains{moving: map[types.UID]time.Time{}}}
	if a.routers == nil {
		a.routers = noRouters{}
	}
	a.proxy, a.api = &proxyHealth{changed: a.poke, rules: nft.KubeProxyRules}, &apiHealth{changed: a.poke}
	a.around = newSurroundings(p.kernel)
	a.tables = newTables(p.tables, p.log, a.allow)
	p.registry.MustRegister(newReceived(p.tables))
	a.leases = dhcplease.New(background, dhcplease.Options{Node: p.node, Log: p.log, Host: leaseHost{a}, Open: p.openDHCP})
	a.directory = newDirectory(a.leases)
	return a
}

// follow takes over the interfaces as they are now.
func (a *agent) follow(links []link.Link) {
	a.links = links
	var used []link.Link
	for i := range links {
		if a.scope.has(links[i].Name) {
			used = append(used, links[i])
		}
	}
	a.announcer.Follow(used)
	a.routers.Follow(links)
	a.tellLinks(used)
	a.interfacesDirty, a.routesDirty = true, true // next hops and source addresses are on interfaces
	write.Wake(a.around.look)
}

func (a *agent) groupChanged() <-chan struct{} {
	if a.group == nil {
		return nil
	}
	return a.group.Changed()
}

// close ends everything; what is in the kernel stays.
func (a *agent) close() {
	a.closeCarrying()
	a.announcer.Close()
	a.routers.Close()
	a.leases.Close()
	if a.group != nil {
		a.group.Close()
	}
	_ = a.tables.nft.Close()
}
