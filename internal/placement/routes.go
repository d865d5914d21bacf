package placement

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	backendovn "fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/routes"
)

// route makes the policy routes of a Service those that it needs, before its rows are
// written: for what it is to have, and for what it has. What it only had goes after that.
// Most Services need none.
func (p *Placer) route(ctx context.Context, w *lb.Want, view *eip.View, at *backendovn.Place) error {
	vpc, key := view.Vpcs[view.Place.Vpc], w.Service.Key
	if vpc == nil {
		return nil
	}
	listeners, err := p.db.Reached(at.Router, backendovn.Listeners(w, slices.Concat(at.Addresses, at.Former)...))
	if errors.Is(err, ovn.ErrUnavailable) {
		return nil // the rows cannot be written either, and that is reported
	} else if err != nil {
		return err
	}
	wanted := served(listeners)
	needed, more := routes.Needed(wanted, view.Subnets, view.Place.Subnet)
	if more > 0 {
		at.Tell = slices.Concat(at.Tell, []lb.Reason{routes.Limited(view.Place.Vpc, more)})
	}
	if len(needed) == 0 && !slices.Contains(routes.Services(vpc), key.String()) {
		return nil
	}
	has, err := p.served(key)
	if errors.Is(err, ovn.ErrUnavailable) {
		return nil // as above
	} else if err != nil {
		return err
	}
	all, _ := routes.Needed(slices.Concat(wanted, has), view.Subnets, view.Place.Subnet)
	p.mu.Lock()
	if p.outdated[key] = len(all) > len(needed); !p.outdated[key] {
		delete(p.outdated, key)
	}
	p.mu.Unlock()
	if step, ok := routes.Change(vpc, key.String(), all); ok && w.DryRun {
		at.Plan = lb.Plan{Steps: append(slices.Clone(at.Plan.Steps), step)}
	}
	if w.DryRun {
		return nil
	}
	return p.projects.Route(ctx, view.Place.Vpc, key, all)
}

// served is what a Service has in the database.
func (p *Placer) served(key types.NamespacedName) ([]routes.Served, error) {
	has, err := p.db.Serves(key.String())
	return served(has), err
}

func served(listeners []ovn.Listener) []routes.Served {
	out := make([]routes.Served, len(listeners))
	for i, l := range listeners {
		out[i] = routes.Served{VIP: l.VIP.Addr(), Protocol: l.Protocol, Backends: l.Backends}
	}
	return out
}
