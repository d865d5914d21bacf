package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/backend/cloudscale"
)

// lookForOrphans tells of load balancers whose Services no longer exist, each
// once, and deletes them if that is asked for.
func (c *cloudServices) lookForOrphans(ctx context.Context) error {
	var cached corev1.ServiceList
	if err := c.cache.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	found, err := c.Backend.Orphans(ctx, isOneOf(cached.Items))
	if err != nil || len(found) == 0 {
		c.countOrphans(nil)
		return err
	}
	// The cache may be behind what another leader has seen.
	now, err := c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	exists := isOneOf(now.Items)
	found = slices.DeleteFunc(found, func(o cloudscale.Orphan) bool { return exists(o.UID) })
	for _, o := range c.countOrphans(found) {
		namespace, name, _ := strings.Cut(o.Service, "/")
		c.events.add(corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: o.UID}, cloudVoice, o.Reason())
		c.log.Warn("load balancer of a Service that no longer exists", "load balancer", o.LoadBalancer.Name, "uuid", o.LoadBalancer.UUID, "service", o.Service)
	}
	if !c.RemoveOrphans || c.DryRun || len(found) == 0 {
		return nil
	}
	plan := cloudscale.Removal(found)
	result, err := c.Backend.Apply(ctx, plan)
	c.log.Info("orphaned load balancers deleted", "plan", plan.String(), "steps", result.Done)
	return err
}

// countOrphans notes which there are, and returns those that are new.
func (c *cloudServices) countOrphans(all []cloudscale.Orphan) (news []cloudscale.Orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.orphans
	c.orphans = map[string]bool{}
	for _, o := range all {
		if c.orphans[o.LoadBalancer.UUID] = true; !known[o.LoadBalancer.UUID] {
			news = append(news, o)
		}
	}
	return news
}

func isOneOf(services []corev1.Service) func(types.UID) bool {
	uids := make(map[types.UID]bool, len(services))
	for i := range services {
		uids[services[i].UID] = true
	}
	return func(uid types.UID) bool { return uids[uid] }
}
