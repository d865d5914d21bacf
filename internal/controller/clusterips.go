package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"fairlead.io/internal/kubeapi"
)

// followServices tells the ledger the ClusterIPs and external IPs of all Services, from
// now on. That is one map entry for each change, so that it delays nobody.
func followServices(ctx context.Context, c cache.Cache, l *ledger) error {
	services, err := c.GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	_, err = services.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { l.setSpecIPs(nil, now) },
		UpdateFunc: l.setSpecIPs,
		DeleteFunc: func(last any) {
			if gone, ok := last.(toolscache.DeletedFinalStateUnknown); ok {
				last = gone.Obj
			}
			l.setSpecIPs(last, nil)
		},
	})
	return err
}

// setSpecIPs notes that a Service is now another; nil is one that is not there.
func (l *ledger) setSpecIPs(before, now any) {
	old, _ := before.(*corev1.Service)
	fresh, _ := now.(*corev1.Service)
	var was, is, external, externalNow []netip.Addr
	var name types.NamespacedName
	if old != nil {
		was, external, name = kubeapi.ClusterIPs(old), kubeapi.ExternalIPs(old), types.NamespacedName{Namespace: old.Namespace, Name: old.Name}
	}
	if fresh != nil {
		is, externalNow, name = kubeapi.ClusterIPs(fresh), kubeapi.ExternalIPs(fresh), types.NamespacedName{Namespace: fresh.Namespace, Name: fresh.Name}
	}
	if slices.Equal(was, is) && slices.Equal(external, externalNow) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []types.NamespacedName
	for _, x := range was {
		if !slices.Contains(is, x) {
			changed = append(changed, l.alloc.UnsetClusterIP(x, name.String())...)
		}
	}
	for _, x := range is {
		changed = append(changed, l.alloc.SetClusterIP(x, name.String())...)
	}
	changed = append(changed, l.alloc.SetExternalIPs(name, external, externalNow)...)
	if len(changed) > 0 {
		l.wake(changed)
	}
}
