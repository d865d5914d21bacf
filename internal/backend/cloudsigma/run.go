package cloudsigma

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudsigma"
)

// watchPause is how often the state of servers is read: a node whose server is
// stopped or gone is dead.
const watchPause = 10 * time.Second

// Run wakes all Services when the cloud says that a server has started, stopped, come
// or gone, or that a subscription ends soon, and those whose pod has changed.
func (b *Backend) Run(ctx context.Context, wake func(...types.NamespacedName)) error {
	var running sync.WaitGroup
	defer running.Wait()
	if b.pods != nil {
		running.Go(func() {
			err := b.pods.Run(ctx, func(name string) {
				if services := b.servicesOf(name); len(services) > 0 {
					wake(services...)
				}
			})
			if err != nil && ctx.Err() == nil {
				b.log.Error("pods that carry addresses are not watched", "error", err)
			}
		})
	}
	var before map[string]string
	var readAgain time.Time
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := time.Now(); !now.Before(readAgain) {
			changed, next := b.readSubscriptions(ctx)
			if readAgain = now.Add(next); changed {
				wake()
			}
		}
		known := b.client.Servers.Peek() // what Services were placed by
		all, err := b.client.Servers.Within(ctx, watchPause/2)
		if err != nil {
			continue // whoever needs an answer reports it
		}
		now := statuses(all)
		if before != nil && !maps.Equal(before, now) || known != nil && !maps.Equal(statuses(known), now) {
			wake()
		}
		before = now
	}
}

func statuses(all []cloudsigma.Server) map[string]string {
	out := map[string]string{}
	for i := range all {
		out[all[i].UUID] = all[i].Status
	}
	return out
}
