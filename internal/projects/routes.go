package projects

import (
	"context"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/routes"
)

// routeAttempts is how often a Vpc is written that somebody else writes at the same time.
const routeAttempts = 10

// locks has one for each name.
type locks struct {
	mu  sync.Mutex
	all map[string]*sync.Mutex
}

func (l *locks) of(name string) *sync.Mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*sync.Mutex{}
	}
	if l.all[name] == nil {
		l.all[name] = &sync.Mutex{}
	}
	return l.all[name]
}

// Route makes the policy routes of a Service in a Vpc those that it needs. Other Services
// wait meanwhile: each would be refused, because the Vpc has changed.
func (p *Projects) Route(ctx context.Context, vpc string, service types.NamespacedName, needed []kubeovn.PolicyRoute) error {
	lock := p.routing.of(vpc)
	lock.Lock()
	defer lock.Unlock()
	var err error
	for range routeAttempts {
		p.mu.Lock()
		v := p.book.GetVpc(vpc)
		p.mu.Unlock()
		if v == nil {
			return nil // its routes went with it
		}
		step, ok := routes.Change(v, service.String(), needed)
		if !ok {
			return nil
		}
		if err = p.Do(ctx, lb.Plan{Steps: []lb.Step{step}}); err == nil || !apierrors.IsConflict(err) {
			return err
		}
		if err := p.refresh(ctx, v); err != nil {
			return err
		}
	}
	return err
}

// refresh reads a Vpc that has changed, and of which the informer has not told yet.
func (p *Projects) refresh(ctx context.Context, v *kubeovn.Vpc) error {
	fresh := &kubeovn.Vpc{}
	fresh.Name = v.Name
	return p.writing(fresh, func() (client.Object, error) {
		if err := p.client.Get(ctx, types.NamespacedName{Name: v.Name}, fresh); err != nil {
			return nil, err
		}
		return fresh, nil
	})
}

// served is what a Service has in the database, if that is known.
func (p *Projects) served(key types.NamespacedName) ([]routes.Served, bool) {
	served, err := p.o.Served(key)
	return served, err == nil
}

// unroute removes the routes of Services that are gone from a Vpc, as far as nothing of
// them is in the database any more.
func (p *Projects) unroute(ctx context.Context, vpc string) error {
	p.mu.Lock()
	v := p.book.GetVpc(vpc)
	p.mu.Unlock()
	if v == nil {
		return nil
	}
	listed := routes.Services(v) // without the lock: the list may be long
	var gone []types.NamespacedName
	p.mu.Lock()
	for _, text := range listed {
		namespace, name, _ := strings.Cut(text, "/")
		if key := (types.NamespacedName{Namespace: namespace, Name: name}); p.book.Claim(key) == nil {
			gone = append(gone, key)
		}
	}
	p.mu.Unlock()
	for _, key := range gone {
		served, known := p.served(key)
		if !known {
			break // looked at again when the database is back
		}
		p.mu.Lock()
		at, ok, _ := p.book.Place(key.Namespace)
		var needed []kubeovn.PolicyRoute
		if ok && at.Vpc == vpc {
			needed, _ = routes.Needed(served, p.book.External(), at.Subnet)
		}
		p.mu.Unlock()
		if err := p.Route(ctx, vpc, key, needed); err != nil {
			return err
		}
	}
	return nil
}
