package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/gossipkey"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// Options of an agent.
type Options struct {
	REST   *rest.Config
	Config *config.Configuration
	Log    *slog.Logger

	NodeName string
	// Namespace of the Secret with the key of the gossip.
	Namespace string
	// GossipPort; 0 switches gossip off: who is alive is then told by the Nodes'
	// conditions, which takes most of a minute.
	GossipPort uint16
	// ProxyHealthURL is asked whether the node forwards; empty means yes.
	ProxyHealthURL string
	// MetalLBNamespace is where objects of MetalLB's kinds count.
	MetalLBNamespace string
	// Pod of the agent, if it is in MetalLB's namespace: what the agent writes there
	// about itself goes with it.
	Pod *metav1.OwnerReference
	// KubeVIP is the ConfigMap of kube-vip's cloud provider, kube-system/kubevip
	// unless it is given, and Interface the one on
	// which Services are announced that this dialect is for, unless they or the
	// ConfigMap name another.
	KubeVIP   types.NamespacedName
	Interface string
	// Excluded matches the names of interfaces on which nothing is announced unless
	// a pool names them; nil is for those that lead to pods or nowhere.
	Excluded *regexp.Regexp
	// IgnoreExcludeLabel: nodes labelled to be left out of load balancing are not.
	IgnoreExcludeLabel bool
	// Refresh is how often addresses are announced again; 0 is never.
	Refresh time.Duration
	// Registry of the agent's metrics.
	Registry prometheus.Registerer
	// Ready is called once the agent works, or waits to follow another one on
	// this node.
	Ready func()
	// Beat is called with every turn of the loop, at least four times a second.
	Beat func(time.Time)
}

// agent is the state of the loop; only the loop touches it.
type agent struct {
	node       string
	config     *config.Configuration
	log        *slog.Logger
	gossipPort uint16
	refresh    time.Duration
	// classicNamespace is where objects of MetalLB's kinds count.
	classicNamespace   string
	ignoreExcludeLabel bool
	configMap          types.NamespacedName

	beat     func(time.Time)
	seat     *seat
	cache    cache.Cache
	classic  cache.Cache // of MetalLB's kinds; nil as long as these are not there
	kubevip  cache.Cache // of the ConfigMap; nil if it is not asked for
	inbox    *inbox
	group    *member.Group // nil without gossip
	peers    *peers
	table    *nft.Table
	kernel   *link.Links
	proxy    *proxyHealth
	api      *apiHealth
	reporter *reporter
	status   *classicStatus // nil without MetalLB's kinds
	metrics  *metrics

	linksChanged <-chan struct{}
	poke         chan struct{} // health has changed
	sightings    chan sighting
	probes       chan probeResult
	leaseNews    chan leaseNews
	background   context.Context // ends with the agent
	reporting    context.Context // ends before, so that the last report is the last
	endReporting context.CancelFunc
	running      sync.WaitGroup
	frames       atomic.Uint64 // sent

	// What is known.
	directory *directory
	links     []link.Link
	scope     scope      // which of them are used
	labels    labels.Set // of this node
	voters    []elect.Node
	claims    map[netip.Addr][]member.Claim
	// macs by node: of dead ones, too, which may come back before they are known
	// to be alive.
	macs map[string][]net.HardwareAddr

	members  map[string]member.Meta
	others   int // members besides this one
	isolated bool
	started  bool // the caches are filled
	synced   bool
	leaving  time.Time
	retired  bool // it has left, and no other agent follows on this node
	// quietUntil: before that nothing is taken; settling is the same for single
	// interfaces. postponed: something would have been.
	quietUntil time.Time
	settling   map[string]time.Time
	postponed  bool
	failure    error     // that the loop ends with
	patience   time.Time // until then peers are waited for

	// What is done.
	held       map[netip.Addr]*holding
	leaseholds map[netip.Addr]*leasehold           // by token
	leasePorts map[string]leasePort                // by interface
	parting    map[netip.Addr]parting              // by token
	said       map[v1alpha1.LeaseOf]v1alpha1.Lease // of leases
	had        map[netip.Addr]string               // the node that had an address last, as far as known
	state      nft.State
	leases     map[string]bool
	outlets    map[string]*outlet
	nobody     map[netip.Addr]string // why no node has it, as was told

	// What is to be done.
	dirty, gone                        map[netip.Addr]bool
	allDirty, linksDirty, membersDirty bool
	claimsDirty, reportDirty           bool
	presenceDirty                      bool // who announces Services of MetalLB's pools
	tableDirty                         bool // what is in the kernel is not what is known
	tableChanges                       map[netip.Addr]*nft.VIP
	rising, falling, lowering          []netip.Addr
	came                               map[netip.Addr]string // from which node
	tellings                           []telling             // that are logged with the turn
	watchDirty                         map[string]bool
}

// Run announces until ctx ends, and then hands over.
func Run(ctx context.Context, o Options) error {
	if o.KubeVIP.Name == "" {
		o.KubeVIP = types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}
	}
	a := &agent{
		node: o.NodeName, config: o.Config, log: o.Log, gossipPort: o.GossipPort, refresh: o.Refresh, beat: o.Beat,
		classicNamespace: o.MetalLBNamespace, ignoreExcludeLabel: o.IgnoreExcludeLabel,
		inbox: newInbox(), poke: make(chan struct{}, 1), sightings: make(chan sighting), probes: make(chan probeResult),
		leaseNews: make(chan leaseNews), leaseholds: map[netip.Addr]*leasehold{}, leasePorts: map[string]leasePort{}, parting: map[netip.Addr]parting{}, said: map[v1alpha1.LeaseOf]v1alpha1.Lease{}, configMap: o.KubeVIP,
		directory: newDirectory(), scope: scope{excluded: cmp.Or(o.Excluded, inward), named: map[string]bool{}}, claims: map[netip.Addr][]member.Claim{},
		held: map[netip.Addr]*holding{}, had: map[netip.Addr]string{}, state: nft.State{VIPs: map[netip.Addr]nft.VIP{}},
		leases: map[string]bool{}, outlets: map[string]*outlet{}, nobody: map[netip.Addr]string{},
		dirty: map[netip.Addr]bool{}, gone: map[netip.Addr]bool{}, came: map[netip.Addr]string{}, watchDirty: map[string]bool{}, tableChanges: map[netip.Addr]*nft.VIP{},
		macs: map[string][]net.HardwareAddr{}, settling: map[string]time.Time{},
		linksDirty: true, membersDirty: true, reportDirty: true,
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer a.running.Wait()
	defer cancel()
	a.background = background
	a.reporting, a.endReporting = context.WithCancel(background)
	defer a.endReporting()

	// A node that takes over a thousand addresses has as many events to tell: those
	// that come next are not to wait for minutes.
	swift := rest.CopyConfig(o.REST)
	swift.QPS, swift.Burst = eventsPerSecond, 2*eventsPerSecond
	kube, err := kubernetes.NewForConfig(swift)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if a.cache, err = newCache(o.REST, o.Log); err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	if err := a.inbox.follow(ctx, a.cache, always); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the API server does not know the kinds of %s: install Fairlead's CRDs (chart value crds.enabled): %w", v1alpha1.GroupVersion.Group, err)
		}
		return err
	}
	a.running.Go(func() { _ = a.cache.Start(background) })
	if o.Config.Uses(lb.MetalLB) {
		if err := a.followClassic(ctx, o); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	a.directory.preset = o.Interface
	if o.Config.Uses(lb.KubeVIP) {
		if err := a.followConfigMap(ctx, o); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	if !a.cache.WaitForCacheSync(ctx) {
		return nil // told to end before anything was done
	}
	var self corev1.Node
	if err := a.cache.Get(ctx, types.NamespacedName{Name: o.NodeName}, &self); err != nil {
		return fmt.Errorf("read node %s: %w", o.NodeName, err)
	}
	// Whatever has to be asked for is asked for before an earlier agent ends, whose
	// leases do not wait for the API server.
	var key []byte
	if o.GossipPort != 0 {
		if key, err = gossipkey.Get(ctx, kube, o.Namespace, o.Log); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	a.seat, err = takeSeat(ctx, o.NodeName, func() {
		o.Log.Info("another agent is active on this node; waiting to follow it")
		o.Ready()
	})
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	defer a.seat.leave()
	if err := a.start(ctx, o, kube, &self, key); err != nil {
		return ignoreEnd(ctx, err)
	}
	o.Ready()
	a.loop(ctx)
	a.close()
	if a.retired {
		a.farewell()
	}
	return a.failure
}

func ignoreEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// start opens everything, and takes over what an earlier agent has left.
func (a *agent) start(ctx context.Context, o Options, kube kubernetes.Interface, self *corev1.Node, key []byte) (err error) {
	if a.table, err = nft.Open(a.log); err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	a.metrics = newMetrics(o.Registry, a.framesSent)
	if a.kernel, err = link.Watch(a.background); err != nil {
		return fmt.Errorf("follow interfaces: %w", err)
	}
	a.linksChanged = a.kernel.Changed()
	a.links = a.kernel.List()
	a.openPorts()
	a.inherit(ctx)

	scheme, err := newScheme()
	if err != nil {
		return err
	}
	reader, err := client.New(o.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	a.reporter = &reporter{node: a.node, uid: self.UID, kube: kube, client: reader, log: a.log, arrived: make(chan struct{}, 1)}
	a.running.Go(func() { paced(a.reporting, a.log, "report", a.reporter.arrived, a.reporter.pass) })
	if o.Config.Uses(lb.MetalLB) {
		if err := a.startClassicStatus(o, reader); err != nil {
			return fmt.Errorf("make client: %w", err)
		}
	}
	a.proxy = &proxyHealth{url: o.ProxyHealthURL, changed: a.poke}
	a.running.Go(func() { a.proxy.watch(a.background) })
	if a.api, err = newAPIHealth(o.REST, a.poke); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	a.running.Go(func() { a.api.watch(a.background) })
	// What an earlier agent had is known, and claimed, before the others are met.
	a.absorb(a.inbox.take())
	var apiServer corev1.Service
	if err := a.cache.Get(ctx, types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &apiServer); err == nil {
		a.directory.cluster = apiServer.UID // there is one in each cluster
	}
	a.inheritLeases(time.Now())
	if err := a.join(ctx, o, self, key); err != nil {
		return err
	}
	a.started, a.allDirty, a.patience = true, true, time.Now().Add(peersPatience)
	return nil
}

// inherit takes over the addresses that an earlier agent has left in the kernel.
// Where its lease still lives they go on being answered for; where not, others
// may have them: what is not ours is removed once that is known.
func (a *agent) inherit(ctx context.Context) {
	left, alive := a.table.Leftover()
	if left.VIPs != nil {
		a.state = left
	}
	now := time.Now()
	if lost, err := a.table.Renew(alive); err == nil {
		for _, place := range alive {
			a.leases[place] = true
			a.extend(place, now)
		}
		for _, place := range lost {
			delete(a.leases, place)
		}
	}
	for _, own := range a.kernel.Ours() {
		if !a.leases[own.Interface] {
			a.remove(own.Interface, own.Addr)
			continue
		}
		h := a.held[own.Addr]
		if h == nil {
			h = &holding{up: true, epoch: 1, since: now, inherited: true}
			a.held[own.Addr] = h
		}
		h.places = append(h.places, own.Interface)
		a.had[own.Addr] = a.node
	}
	for addr, v := range a.state.VIPs {
		a.gone[addr], a.dirty[addr] = true, true
		if a.held[addr] == nil && len(v.Interfaces) > 0 {
			a.setVIP(addr, nft.VIP{Ports: v.Ports})
		}
	}
	var before v1alpha1.Agent
	if err := a.cache.Get(ctx, types.NamespacedName{Name: a.node}, &before); err == nil {
		for _, n := range before.Status.Addresses {
			if addr, err := lb.ParseAddr(n.Address); err == nil {
				a.had[addr] = a.node
			}
		}
		for _, l := range before.Status.Leases {
			a.said[v1alpha1.LeaseOf{Service: l.Service, Family: l.Family}] = l
		}
	}
	if len(a.held) > 0 {
		a.log.Info("taken over from an earlier agent on this node", "addresses", len(a.held))
	}
}

// join starts the gossip, and keeps looking for agents that it does not know.
func (a *agent) join(ctx context.Context, o Options, self *corev1.Node, key []byte) (err error) {
	a.peers = &peers{}
	if o.GossipPort == 0 {
		a.log.Warn("gossip is switched off: who is alive is told by the Nodes' conditions, which takes most of a minute")
		return nil
	}
	addr, ok := nodeAddress(self)
	if !ok {
		return fmt.Errorf("node %s has no address in its status", self.Name)
	}
	for {
		a.group, err = member.Start(member.Config{Name: a.node, Bind: netip.AddrPortFrom(addr, o.GossipPort), Key: key,
			Meta: metaOf(a.links, &a.scope, true, false), Log: a.log})
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		a.renew()
		select { // our predecessor is ending
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	a.claimsDirty = true
	a.publishClaims()
	a.running.Go(func() { a.peers.join(a.background, a.group) })
	return nil
}

func (a *agent) groupChanged() <-chan struct{} {
	if a.group == nil {
		return nil
	}
	return a.group.Changed()
}

// close ends everything; what is in the kernel stays.
func (a *agent) close() {
	for name := range a.outlets {
		a.closeOutlet(name)
	}
	for _, h := range a.leaseholds {
		h.end()
	}
	for _, p := range a.leasePorts {
		if p.port != nil {
			_ = p.port.Close()
		}
	}
	if a.group != nil {
		a.group.Close()
	}
	_ = a.table.Close()
}

func (a *agent) framesSent() float64 {
	return float64(a.frames.Load())
}

// peers are the addresses at which other agents should be.
type peers struct {
	mu   sync.Mutex
	list []netip.AddrPort
}

func (p *peers) set(list []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
}

// count says how many others there should be.
func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}

// joinPeriod is how often unknown agents are looked for: a node that was added
// takes part after that, and one that died is not asked in vain too often.
const joinPeriod = 300 * time.Millisecond

func (p *peers) join(ctx context.Context, g *member.Group) {
	tick := time.NewTicker(joinPeriod)
	defer tick.Stop()
	for {
		p.mu.Lock()
		list := p.list
		p.mu.Unlock()
		if len(list) > 0 {
			_, _ = g.Join(ctx, list)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
