package controller

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// agents knows what the nodes' agents report: which addresses DHCP servers gave,
// and who announces what. Services of which that changes are woken.
type agents struct {
	cache client.Reader
	wake  func([]types.NamespacedName)
	// active says whether anybody needs to know.
	active func() bool

	mu     sync.Mutex
	leases map[v1alpha1.LeaseOf]string
	hosts  map[string]string // Service to the node that announces its first address
}

// hearsAgents says whether any class needs what agents report: DHCP servers give
// their addresses to nodes, and kube-vip's words name the node that announces.
func hearsAgents(cfg *config.Configuration) bool {
	return slices.ContainsFunc(cfg.Classes, func(c config.Class) bool {
		return c.Backend == config.Announce && slices.Contains(c.Pools, lb.KubeVIP)
	})
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
	var list v1alpha1.AgentList
	if a == nil || !a.active() {
		return nil, nil
	}
	if err := a.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	leases, hosts := map[v1alpha1.LeaseOf]string{}, announcers(list.Items)
	for of, l := range v1alpha1.LatestLeases(list.Items) {
		leases[of] = l.Address
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := map[string]bool{}
	for _, pair := range [][2]map[v1alpha1.LeaseOf]string{{a.leases, leases}, {leases, a.leases}} {
		for of, address := range pair[0] {
			if other, ok := pair[1][of]; !ok || other != address {
				changed[of.Service] = true
			}
		}
	}
	for service, node := range hosts { // who has none now keeps the name of the last
		if a.hosts[service] != node {
			changed[service] = true
		}
	}
	a.leases, a.hosts = leases, hosts
	var out []types.NamespacedName
	for _, service := range slices.Sorted(maps.Keys(changed)) {
		namespace, name, _ := strings.Cut(service, "/")
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out, nil
}

// announcers returns for each Service the node that has had one of its addresses
// for the shortest time: the others had it before.
func announcers(list []v1alpha1.Agent) map[string]string {
	out := map[string]string{}
	since := map[string]int64{}
	for i := range list {
		for _, address := range list[i].Status.Addresses {
			for _, service := range address.Services {
				if began, ok := since[service]; !ok || began < address.Since.UnixNano() {
					out[service], since[service] = list[i].Name, address.Since.UnixNano()
				}
			}
		}
	}
	return out
}

// leased returns the addresses that DHCP servers gave s. Of a family of which no
// agent says anything, that is the one that s publishes.
func (a *agents) leased(s *corev1.Service) (out []netip.Addr) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	marked := strings.Split(s.Annotations[native.AnnotationDHCP], ",")
	for _, f := range lb.Families {
		text, told := a.leases[v1alpha1.LeaseOf{Service: s.Namespace + "/" + s.Name, Family: f.String()}]
		if x, err := lb.ParseAddr(text); told && err == nil {
			out = append(out, x)
		}
		if told || !slices.Contains(marked, f.String()) {
			continue
		}
		for _, x := range native.Published(s) {
			if lb.FamilyOf(x) == f {
				out = append(out, x)
				break
			}
		}
	}
	return out
}

// host returns the node that announces s, or "".
func (a *agents) host(s *corev1.Service) string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hosts[s.Namespace+"/"+s.Name]
}

// hostOf returns the node to name on s, whose addresses v are of kube-vip's pools.
func (c *services) hostOf(s *corev1.Service, r *lb.Request, v lb.Verdict) string {
	if len(v.Addresses) == 0 || c.voice(r, v) != lb.KubeVIP {
		return ""
	}
	return c.agents.host(s)
}
