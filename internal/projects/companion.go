package projects

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// companionWorkers is how many Services get their companions at the same time.
const companionWorkers = 2

// endpoints is what kube-dc's manager wrote where we have EndpointSlices.
func endpoints() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
	return out
}

// companionCache watches slices and Endpoints only if they accompany Services.
func companionCache() map[client.Object]cache.ByObject {
	only := cache.ByObject{Label: eip.CompanionSelector()}
	return map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: only, endpoints(): only}
}

// followCompanions looks at the companions of a Service when they or the Service change.
// Nobody waits for them: without the right to read slices there are no companions.
func (p *Projects) followCompanions(ctx context.Context) error {
	for _, kind := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, endpoints()} {
		informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		registered, err := informer.AddEventHandler(handler(p.companionChanged))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		p.companionsKnown = append(p.companionsKnown, registered.HasSynced)
	}
	return nil
}

func (p *Projects) companionChanged(before, after client.Object) {
	o := either(before, after)
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	if of := eip.CompanionOf(o); of != "" {
		key.Name = of
	} else if s, ok := o.(*corev1.Service); !ok || s.Spec.Type != corev1.ServiceTypeLoadBalancer && !wasLoadBalancer(before) {
		return
	}
	p.companions.Add(key)
}

// accompanyAgain looks at the companions of Services whose EIp has come to have an address.
func (p *Projects) accompanyAgain(services []types.NamespacedName) {
	for _, key := range services {
		p.companions.Add(key)
	}
}

func wasLoadBalancer(before client.Object) bool {
	s, ok := before.(*corev1.Service)
	return ok && s != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// workCompanions makes companions until the queue ends.
func (p *Projects) workCompanions(ctx context.Context) {
	for {
		key, end := p.companions.Get()
		if end {
			return
		}
		if err := p.accompany(ctx, key); err != nil {
			if ctx.Err() == nil && !transient(err) && p.companions.NumRequeues(key) == 0 {
				p.o.Log.Warn("companions of a Service not written; trying again", "service", key, "error", err)
			}
			p.companions.AddRateLimited(key)
		} else {
			p.companions.Forget(key)
		}
		p.companions.Done(key)
	}
}

// accompany makes the companions of a Service lead to the addresses that it publishes.
func (p *Projects) accompany(ctx context.Context, key types.NamespacedName) error {
	var object corev1.Service
	if err := p.cache.Get(ctx, key, &object); err != nil {
		p.mu.Lock()
		delete(p.created, key)
		p.mu.Unlock()
		return client.IgnoreNotFound(err) // Kubernetes deletes what it owns
	}
	if !p.looked.Load() || slices.ContainsFunc(p.companionsKnown, func(known func() bool) bool { return !known() }) {
		return ErrUnread
	}
	s := kubeapi.Service(&object)
	have, err := p.companionsOf(ctx, s)
	if err != nil {
		return err
	}
	if p.unseen(key, have) {
		return ErrUnread
	}
	addresses := p.external(s)
	if len(addresses) == 0 && !have.Ours() {
		return nil
	}
	plan := eip.Accompany(s, addresses, have)
	err = p.Do(ctx, plan)
	p.expect(key, plan)
	return err
}

// created are companions that were created, until the cache has them.
type created struct {
	keys []string // of steps
	at   time.Time
}

// confirmed is how long the cache may take.
const confirmed = 5 * time.Second

// expect notes what was created for a Service.
func (p *Projects) expect(key types.NamespacedName, plan lb.Plan) {
	var keys []string
	for _, step := range plan.Steps {
		if step.Verb == lb.VerbCreate {
			keys = append(keys, step.Key())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(keys) > 0 {
		p.created[key] = created{keys, time.Now()}
	}
}

// unseen says that the cache does not have yet what was created for a Service.
func (p *Projects) unseen(key types.NamespacedName, have eip.Companions) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, expected := p.created[key]
	if !expected {
		return false
	}
	there := have.Keys()
	if time.Since(one.at) < confirmed && slices.ContainsFunc(one.keys, func(k string) bool { return !slices.Contains(there, k) }) {
		return true
	}
	delete(p.created, key)
	return false
}

// external are the addresses of EIps that a Service of the backend's classes publishes.
func (p *Projects) external(s *lb.Service) []netip.Addr {
	if _, ok := p.o.Claim(s); !ok {
		return nil
	}
	published := s.Published()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.book.EIpsOf(s.Key) {
		e := p.book.GetEIp(types.NamespacedName{Namespace: s.Key.Namespace, Name: name})
		if a, err := lb.ParseAddr(e.Status.IPAddress); err == nil && slices.Contains(published, a) {
			return published
		}
	}
	return nil
}

func (p *Projects) companionsOf(ctx context.Context, s *lb.Service) (have eip.Companions, err error) {
	name := eip.CompanionName(s.Key.Name)
	get := func(name string, o client.Object) bool {
		e := p.cache.Get(ctx, client.ObjectKey{Namespace: s.Key.Namespace, Name: name}, o)
		if e != nil && !apierrors.IsNotFound(e) {
			err = fmt.Errorf("read %s/%s: %w", s.Key.Namespace, name, e)
		}
		return e == nil
	}
	if service := (&corev1.Service{}); get(name, service) {
		have.Service = service
	}
	for _, f := range lb.Families {
		if slice := (&discoveryv1.EndpointSlice{}); get(eip.SliceName(s.Key.Name, f), slice) {
			have.Slices[f] = slice
		}
	}
	if e := endpoints(); get(name, e) {
		have.Endpoints = e
	}
	return have, err
}
