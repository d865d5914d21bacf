package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// kindServiceCIDR has the networks of ClusterIPs. Older API servers do not have it.
var kindServiceCIDR = networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR")

// owners tells the ledger which addresses belong to nodes and to the cluster itself,
// by what Nodes, ServiceCIDRs and Agents say. followServices does the rest.
type owners struct {
	cache  client.Reader
	kinds  readable // nil: none but Kubernetes' oldest
	ledger *ledger
}

func (o *owners) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, err := o.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	o.ledger.do(func(a *ipam.Allocator) []types.NamespacedName { return a.SetOwners(all) })
	return reconcile.Result{}, nil
}

// read collects what is known now.
func (o *owners) read(ctx context.Context) (all ipam.Owners, err error) {
	all = ipam.Owners{Nodes: map[netip.Addr]string{}, Interfaces: map[netip.Addr]string{}, Others: map[netip.Addr]string{}}
	var nodes corev1.NodeList
	if err := o.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return all, fmt.Errorf("list nodes: %w", err)
	}
	lives := map[string]bool{}
	for i := range nodes.Items {
		n := kubeapi.Node(&nodes.Items[i])
		lives[n.Name] = true
		for _, a := range n.Addresses {
			all.Nodes[a] = n.Name
		}
		for _, text := range nodes.Items[i].Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				all.Networks = append(all.Networks, ipam.Network{Prefix: p, Is: "in " + p.String() + ", the network of the pods of node " + n.Name})
			}
		}
	}
	if o.has(kindServiceCIDR) {
		var list networkingv1.ServiceCIDRList
		if err := o.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return all, fmt.Errorf("list service CIDRs: %w", err)
		}
		for i := range list.Items {
			for _, text := range list.Items[i].Spec.CIDRs {
				if p, err := netip.ParsePrefix(text); err == nil {
					all.Networks = append(all.Networks, ipam.Network{Prefix: p, Is: "in " + p.String() + ", the network of the ClusterIPs"})
				}
			}
		}
	}
	return all, o.readAgents(ctx, lives, &all)
}

// readAgents adds what the agents of nodes that live report. Of two nodes with one
// gateway, the first by name is named.
func (o *owners) readAgents(ctx context.Context, lives map[string]bool, all *ipam.Owners) error {
	if !o.has(kindAgent) {
		return nil
	}
	var list v1alpha1.AgentList
	if err := o.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list agents: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Agent) int { return strings.Compare(a.Name, b.Name) })
	add := func(to map[netip.Addr]string, text, what string) {
		if a, err := lb.ParseAddr(text); err == nil && to[a] == "" {
			to[a] = what
		}
	}
	for i := range list.Items {
		name, status := list.Items[i].Name, &list.Items[i].Status
		if !lives[name] {
			continue
		}
		for _, iface := range status.Interfaces {
			for _, text := range iface.Addresses {
				address, _, _ := strings.Cut(text, "/")
				add(all.Interfaces, address, name)
			}
		}
		for _, text := range status.Gateways {
			add(all.Others, text, "the gateway of node "+name)
		}
		for _, text := range status.NameServers {
			add(all.Others, text, "a name server of node "+name)
		}
	}
	return o.leaveOutPublished(ctx, all)
}

// leaveOutPublished takes out of the addresses on interfaces those that Services
// publish: some other program announces them there.
func (o *owners) leaveOutPublished(ctx context.Context, all *ipam.Owners) error {
	if len(all.Interfaces) == 0 {
		return nil
	}
	var list corev1.ServiceList
	if err := o.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for i := range list.Items {
		for _, in := range list.Items[i].Status.LoadBalancer.Ingress {
			if a, err := lb.ParseAddr(in.IP); err == nil {
				delete(all.Interfaces, a)
			}
		}
	}
	return nil
}

func (o *owners) has(kind schema.GroupVersionKind) bool { return o.kinds != nil && o.kinds.Has(kind) }

// agentOwnsChanged passes on what agents report of their nodes, and passes over what
// they report of Services.
func agentOwnsChanged(before, after client.Object) bool {
	b, ok1 := before.(*v1alpha1.Agent)
	a, ok2 := after.(*v1alpha1.Agent)
	return ok1 && ok2 && !(slices.Equal(b.Status.Gateways, a.Status.Gateways) && slices.Equal(b.Status.NameServers, a.Status.NameServers) &&
		slices.EqualFunc(b.Status.Interfaces, a.Status.Interfaces, func(x, y v1alpha1.Interface) bool { return slices.Equal(x.Addresses, y.Addresses) }))
}
