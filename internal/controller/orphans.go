package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// orphans are what was found the last time, by ID.
type orphans struct {
	mu    sync.Mutex
	known map[string]lb.Code
}

// note remembers which there are, and returns those that are new.
func (o *orphans) note(all []lb.Orphan) (news []lb.Orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known
	o.known = map[string]lb.Code{}
	for _, one := range all {
		o.known[one.ID] = one.Reason.Code
		if _, old := known[one.ID]; !old {
			news = append(news, one)
		}
	}
	return news
}

func (o *orphans) countByReason(count map[lb.Code]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, code := range o.known {
		count[code]++
	}
}

// lookForOrphans reports what was made for Services that no longer exist, each once,
// and removes it if that is asked for.
func (c *services) lookForOrphans(ctx context.Context) error {
	reaper, ok := c.backend.Backend.(backend.Reaper)
	if !ok {
		return nil
	}
	var cached corev1.ServiceList
	if err := c.cache.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	found, err := reaper.Orphans(ctx, isOneOf(cached.Items))
	if err != nil {
		return err // those that are known stay so, and are not told again
	}
	if len(found) == 0 {
		c.orphans.note(nil)
		return nil
	}
	// The cache may be behind what another leader has seen.
	now, err := c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	exists := isOneOf(now.Items)
	found = slices.DeleteFunc(found, func(o lb.Orphan) bool { return o.Lives(exists) })
	voice := c.classes.voice(c.backend.words())
	for _, o := range c.orphans.note(found) {
		about := kubeapi.ServiceReference(o.Service, o.UID)
		c.events.add(about, voice.Event(o.Reason, nil, nil), o.Reason.Warning())
		c.log.Warn("orphaned: its Service no longer exists", "id", o.ID, "service", o.Service, "reason", o.Reason.Text)
	}
	if !c.backend.RemoveOrphans || c.backend.DryRun || len(found) == 0 {
		return nil
	}
	plan, err := reaper.Remove(ctx, found)
	c.log.Info("orphans removed", "plan", plan.String())
	return err
}

func isOneOf(services []corev1.Service) lb.Exists {
	uids, names := make(map[types.UID]bool, len(services)), make(map[types.NamespacedName]bool, len(services))
	for i := range services {
		uids[services[i].UID], names[client.ObjectKeyFromObject(&services[i])] = true, true
	}
	return func(name types.NamespacedName, uid types.UID) bool { return uids[uid] || uid == "" && names[name] }
}
