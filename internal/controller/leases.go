package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// agentsPause is the least time between two readings of all agents' reports: they all
// report at the same time when one of them is lost.
const agentsPause = 100 * time.Millisecond

// agents knows what the nodes' agents report: which addresses DHCP servers assigned,
// which node announces which address, and for which addresses nobody answers. It wakes
// Services when that changes, and marks agents that are lost.
type agents struct {
	cache    client.Reader
	client   client.Client        // writes Agents
	kube     kubernetes.Interface // asks the API server about Nodes
	kinds    readable
	dialects []compat.Dialect // notified of moves
	reasons  lb.Table         // that agents may give
	wake     func([]types.NamespacedName)
	// everyone returns all Services whose addresses agents announce.
	everyone func(context.Context) []types.NamespacedName
	// addresses is how many addresses these have.
	addresses func() int
	log       *slog.Logger

	mu       sync.Mutex
	known    bool      // it was read once
	at       time.Time // when it was read last
	leases   map[v1alpha1.LeaseOf]string
	hosts    map[string]announcer // by address
	silences silences
	living   living
	routing  Routing

	// placing wakes all Services of backends that place addresses on nodes with
	// agents; nil if there are none.
	placing func()
	// routed is called when what agents report about routers has changed.
	routed func()
}

// announcer is the node that announces an address.
type announcer struct {
	node     string
	services []string
}

// newAgents returns nil if no class needs what agents report.
func newAgents(c *classes, kinds readable, wake func([]types.NamespacedName)) *agents {
	a := &agents{kinds: kinds, wake: wake, dialects: followers(c), everyone: func(context.Context) []types.NamespacedName { return nil }}
	if len(a.dialects) == 0 && !c.needAgents() {
		return nil
	}
	return a
}

// followers are the dialects that need what agents report: those whose pools a class
// uses that they do not speak for, so that Fairlead announces it.
func followers(c *classes) (out []compat.Dialect) {
	for _, d := range c.dialects {
		if _, ok := d.(compat.Follower); !ok {
			continue
		}
		if slices.ContainsFunc(c.config.Classes, func(class config.Class) bool {
			b := c.backends[class.Backend]
			return b != nil && b.words() != d.Name() && slices.Contains(class.Pools, d.Name())
		}) {
			out = append(out, d)
		}
	}
	return out
}

func (a *agents) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if rest := a.pause(time.Now()); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	list, nodes, err := a.list(ctx)
	if err != nil || list == nil {
		return reconcile.Result{}, err
	}
	lost := lostAgents(list, nodes)
	changed, next := a.take(ctx, list, nodes, lost)
	if len(changed) > 0 {
		a.wake(changed)
	}
	return reconcile.Result{RequeueAfter: next}, a.markLost(ctx, list, nodes, lost)
}

// pause is how long it is too early to read everything again.
func (a *agents) pause(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, a.at.Add(agentsPause).Sub(now))
}

// read takes over what agents say now, and returns the Services for which that
// is something else.
func (a *agents) read(ctx context.Context) ([]types.NamespacedName, error) {
	if a == nil {
		return nil, nil
	}
	list, nodes, err := a.list(ctx)
	if err != nil || list == nil {
		return nil, err
	}
	changed, _ := a.take(ctx, list, nodes, lostAgents(list, nodes))
	return changed, nil
}

// list returns nil if Agents cannot be read: then nothing is known of them.
func (a *agents) list(ctx context.Context) ([]v1alpha1.Agent, []corev1.Node, error) {
	if _, lacking := lacks(a.kinds, kindAgent); lacking {
		return nil, nil, nil
	}
	var list v1alpha1.AgentList
	if err := a.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list agents: %w", err)
	}
	var nodes corev1.NodeList
	if err := a.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	if list.Items == nil {
		list.Items = []v1alpha1.Agent{} // there is none, which is something to know
	}
	return list.Items, nodes.Items, nil
}

// take takes over what was read. It returns the Services for which that is something
// else, and after which time there is more to say though nothing changes; 0 is never.
func (a *agents) take(ctx context.Context, list []v1alpha1.Agent, nodes []corev1.Node, lost map[string]lb.Reason) (out []types.NamespacedName, next time.Duration) {
	leases, hosts := map[v1alpha1.LeaseOf]string{}, announcers(list, nodes)
	for of, l := range v1alpha1.LatestLeases(list) {
		leases[of] = l.Address
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := livingOf(list, lost); !now.equal(a.living) {
		if a.living = now; a.placing != nil {
			a.placing()
		}
	}
	if now := routingOf(list, lost, a.reasons); !reflect.DeepEqual(now, a.routing) {
		if a.routing = now; a.routed != nil {
			a.routed()
		}
	}
	changed := map[string]bool{}
	for _, pair := range [][2]map[v1alpha1.LeaseOf]string{{a.leases, leases}, {leases, a.leases}} {
		for of, address := range pair[0] {
			if other, ok := pair[1][of]; !ok || other != address {
				changed[of.Service] = true
			}
		}
	}
	for address, now := range hosts { // without a node now, it keeps the name of the last one
		if a.hosts[address].node == now.node {
			continue
		}
		for _, service := range now.services {
			changed[service] = changed[service] || a.names(ctx, service, address, now.node)
		}
	}
	a.leases, a.hosts, a.known, a.at = leases, hosts, true, time.Now()
	silent, everyone, next := a.silences.update(findSilence(list, lost, a.reasons), a.at)
	for _, service := range silent {
		changed[service] = true
	}
	if everyone {
		out = a.everyone(ctx)
	}
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		if changed[service] {
			out = append(out, kubeapi.ParseKey(service))
		}
	}
	return out, next
}

// names says whether the Service is to name the node that has its address, and
// names another. Before the cache is filled, every Service is still to come.
func (a *agents) names(ctx context.Context, service, address, node string) bool {
	var object corev1.Service
	if err := a.cache.Get(ctx, kubeapi.ParseKey(service), &object); err != nil {
		return false
	}
	s := kubeapi.Service(&object)
	first := s.Published()
	return len(first) > 0 && first[0].String() == address && slices.ContainsFunc(a.dialects, func(d compat.Dialect) bool {
		f, ok := d.(compat.Follower)
		return ok && f.Moved(s, node)
	})
}

// announcers returns the node that announces each address. Reports stay when nodes
// go: of several that say so it is one whose kubelet is heard of, then the one that
// had the address last, then the first by name.
func announcers(list []v1alpha1.Agent, nodes []corev1.Node) map[string]announcer {
	alive := map[string]bool{}
	for i := range nodes {
		alive[nodes[i].Name] = kubeapi.NodeReady(&nodes[i])
	}
	type claim struct {
		alive bool
		since int64
		node  string
	}
	out, best := map[string]announcer{}, map[string]claim{}
	for i := range list {
		node := list[i].Name
		for _, address := range list[i].Status.Addresses {
			if address.Protocol == "BGP" { // many nodes announce it at once
				continue
			}
			this, other := claim{alive[node], address.Since.Unix(), node}, best[address.Address]
			switch {
			case other.node == "":
			case this.alive != other.alive:
				if other.alive {
					continue
				}
			case this.since < other.since, this.since == other.since && this.node > other.node:
				continue
			}
			best[address.Address] = this
			out[address.Address] = announcer{node: node, services: address.Services}
		}
	}
	return out
}

// leased returns the addresses that DHCP servers gave a Service. Of a family of which
// no agent says anything, that is the one that was noted as such.
func (a *agents) leased(service types.NamespacedName, noted []netip.Addr) (out []netip.Addr) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range lb.Families {
		text, reported := a.leases[v1alpha1.LeaseOf{Service: service.String(), Family: f.String()}]
		if x, err := lb.ParseAddr(text); reported && err == nil {
			out = append(out, x)
		}
		if reported {
			continue
		}
		for _, x := range noted {
			if lb.FamilyOf(x) == f {
				out = append(out, x)
			}
		}
	}
	return out
}

// host returns the node that announces an address, or "".
func (a *agents) host(address netip.Addr) string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hosts[address.String()].node
}

// unannounced is why nobody answers for some of the addresses, nil if all is well.
// While that is not known, it is what the Service says already.
func (a *agents) unannounced(addresses []netip.Addr, have *lb.Condition) *lb.Reason {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.known {
			return a.silences.of(addresses, have)
		}
	}
	if have != nil {
		return &have.Reason
	}
	return nil
}

// countSilent counts the addresses for which nobody answers, as far as Services say so.
func (a *agents) countSilent(ctx context.Context) map[lb.Code]int {
	out := map[lb.Code]int{}
	if a == nil {
		return out
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.silences.all[everyAddress]; l != nil && l.told != nil {
		out[l.told.Code] = a.addresses()
		return out
	}
	for address, l := range a.silences.all {
		if l.told != nil && a.published(ctx, address, l.services) {
			out[l.told.Code]++
		}
	}
	return out
}

// each calls f with what the Agent object of each node says of the agent. One that has
// not reported yet is not ready, without a reason.
func (a *agents) each(ctx context.Context, f func(node string, ready bool, reason string)) {
	if a == nil {
		return
	}
	list, _, err := a.list(ctx)
	if err != nil {
		return // the cache is not filled yet
	}
	for i := range list {
		ready := metav1.Condition{}
		if c := meta.FindStatusCondition(list[i].Status.Conditions, agentReady); c != nil {
			ready = *c
		}
		f(list[i].Name, ready.Status == metav1.ConditionTrue, ready.Reason)
	}
}

// published says whether one of the Services still has the address. The last report of
// a lost agent may be older than that.
func (a *agents) published(ctx context.Context, address string, services []string) bool {
	return slices.ContainsFunc(services, func(name string) bool {
		var object corev1.Service
		if err := a.cache.Get(ctx, kubeapi.ParseKey(name), &object); err != nil {
			return false
		}
		return slices.Contains(prose.Texts(kubeapi.Service(&object).Published()), address)
	})
}
