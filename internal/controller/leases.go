package controller

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// agents knows what the nodes' agents report: which addresses DHCP servers assigned,
// and which node announces which address. It wakes Services when that changes.
type agents struct {
	cache    client.Reader
	kinds    *apikinds.Set
	dialects []compat.Dialect // notified of moves
	wake     func([]types.NamespacedName)

	mu     sync.Mutex
	leases map[v1alpha1.LeaseOf]string
	hosts  map[string]announcer // by address
	living living

	// placing wakes all Services of backends that place addresses on nodes with
	// agents; nil if there are none.
	placing func()
}

// announcer is the node that announces an address.
type announcer struct {
	node     string
	services []string
}

// newAgents returns nil if no class needs what agents report.
func newAgents(c *classes, kinds *apikinds.Set, wake func([]types.NamespacedName)) *agents {
	a := &agents{kinds: kinds, wake: wake, dialects: followers(c)}
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
	changed, err := a.read(ctx)
	if len(changed) > 0 {
		a.wake(changed)
	}
	return reconcile.Result{}, err
}

// read takes over what agents say now, and returns the Services for which that
// is something else.
func (a *agents) read(ctx context.Context) ([]types.NamespacedName, error) {
	if a == nil {
		return nil, nil
	}
	if _, lacking := a.kinds.Lacks(kindAgent); lacking {
		return nil, nil
	}
	var list v1alpha1.AgentList
	if err := a.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var nodes corev1.NodeList
	if err := a.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	leases, hosts := map[v1alpha1.LeaseOf]string{}, announcers(list.Items, nodes.Items)
	for of, l := range v1alpha1.LatestLeases(list.Items) {
		leases[of] = l.Address
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := livingOf(list.Items, nodes.Items); !now.equal(a.living) {
		if a.living = now; a.placing != nil {
			a.placing()
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
	a.leases, a.hosts = leases, hosts
	var out []types.NamespacedName
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		if changed[service] {
			out = append(out, kubeapi.ParseKey(service))
		}
	}
	return out, nil
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
