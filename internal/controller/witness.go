package controller

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// openWitnesses gets the keys by which backends recognise what they wrote.
func (i *importer) openWitnesses(ctx context.Context) error {
	i.first = map[config.Backend]bool{}
	for name, b := range i.classes.backends {
		w, ok := b.Backend.(backend.Witness)
		if !ok {
			continue
		}
		first, err := w.Open(ctx, i.secrets)
		if err != nil {
			return err
		}
		if i.first[name] = first; first {
			i.log.Info("first start: what Services say that they have is believed, and signed; the oldest Service counts", "backend", name)
		}
	}
	return nil
}

// closeWitnesses has signed what was found at a first start, then ends it. A Service
// that cannot be written keeps nobody from that: its holdings are in the ledger, and
// signed when it can be written.
func (i *importer) closeWitnesses(ctx context.Context, found []imported) error {
	for _, svc := range i.services {
		w, ok := svc.backend.Backend.(backend.Witness)
		if !ok || !i.first[svc.name] {
			continue
		}
		todo := make(chan imported)
		var workers sync.WaitGroup
		for range svc.backend.Workers {
			workers.Go(func() {
				for one := range todo {
					if _, err := svc.Reconcile(ctx, reconcile.Request{NamespacedName: one.service.Key}); err != nil {
						i.log.Warn("not signed yet", "service", one.service.Key.String(), "error", err)
					}
				}
			})
		}
		for _, one := range found {
			if one.backend == svc.name && one.held.Evidence == lb.Reported && len(one.held.Addresses) > 0 && ctx.Err() == nil {
				todo <- one
			}
		}
		close(todo)
		workers.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.Close(ctx, i.secrets); err != nil {
			return err
		}
	}
	return nil
}

// note has signed what s has, which is left alone: at a first start, and after a change of
// its ports, that is held without a proof. What another Service turned out to have is
// not signed.
func (c *services) note(ctx context.Context, s *lb.Service, held lb.Held, has []netip.Addr) error {
	w, ok := c.backend.Backend.(backend.Witness)
	if !ok || held.Evidence != lb.Reported || len(held.Addresses) == 0 || !sameAddresses(held.Addresses, has) {
		return nil
	}
	_, err := c.write(ctx, s, kubeapi.Patch(s, &lb.Outcome{Marks: w.Note(s)}, time.Now()))
	return err
}

func sameAddresses(a, b []netip.Addr) bool {
	byAddress := netip.Addr.Compare
	return slices.Equal(slices.SortedFunc(slices.Values(a), byAddress), slices.SortedFunc(slices.Values(b), byAddress))
}
