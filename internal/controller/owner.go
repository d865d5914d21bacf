package controller

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"fairlead.io/internal/kubeapi"
)

// owners knows which addresses belong to the cluster itself. Nobody gets one of
// them for a Service by asking for it: every node would then lead the traffic of
// the rightful owner astray.
type owners struct {
	mu         sync.RWMutex
	clusterIPs map[netip.Addr]string
	// podNetworks are few for each node. An address is compared with all of them,
	// which only happens when a Service asks for one by name.
	podNetworks map[string][]netip.Prefix
}

func newOwners() *owners {
	return &owners{clusterIPs: map[netip.Addr]string{}, podNetworks: map[string][]netip.Prefix{}}
}

// of says what x is ("the ClusterIP of Service default/kubernetes"), or "".
func (o *owners) of(x netip.Addr) string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if service, ok := o.clusterIPs[x]; ok {
		return "the ClusterIP of Service " + service
	}
	for node, networks := range o.podNetworks {
		for _, n := range networks {
			if n.Contains(x) {
				return "in " + n.String() + ", the network of the pods of node " + node
			}
		}
	}
	return ""
}

// follow keeps o up to date from now on.
func (o *owners) follow(ctx context.Context, c cache.Cache) error {
	services, err := c.GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	nodes, err := c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	for _, informer := range []cache.Informer{services, nodes} {
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { o.change(nil, now) },
			UpdateFunc: o.change,
			DeleteFunc: func(last any) {
				if gone, ok := last.(toolscache.DeletedFinalStateUnknown); ok {
					last = gone.Obj
				}
				o.change(last, nil)
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// change notes that an object is now another; nil is one that is not there.
func (o *owners) change(before, now any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch old := before.(type) {
	case *corev1.Service:
		for _, a := range kubeapi.ClusterIPs(old) {
			if o.clusterIPs[a] == old.Namespace+"/"+old.Name {
				delete(o.clusterIPs, a)
			}
		}
	case *corev1.Node:
		delete(o.podNetworks, old.Name)
	}
	switch fresh := now.(type) {
	case *corev1.Service:
		for _, a := range kubeapi.ClusterIPs(fresh) {
			o.clusterIPs[a] = fresh.Namespace + "/" + fresh.Name
		}
	case *corev1.Node:
		for _, text := range fresh.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				o.podNetworks[fresh.Name] = append(o.podNetworks[fresh.Name], p)
			}
		}
	}
}
