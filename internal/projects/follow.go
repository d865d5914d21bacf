package projects

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/routes"
)

// follow begins to watch everything, and waits until all that there is has been read.
func (p *Projects) follow(ctx context.Context) error {
	var told []toolscache.DoneChecker
	for _, kind := range []client.Object{&corev1.Service{}, &corev1.Namespace{}} {
		informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch for projects: %w", err)
		}
		registered, err := informer.AddEventHandler(handler(p.changed))
		if err != nil {
			return fmt.Errorf("watch for projects: %w", err)
		}
		told = append(told, registered.HasSyncedChecker())
	}
	for _, k := range kinds {
		// The set is locked while it calls Came.
		f := apikinds.Follower{Came: func() { go p.everything() }, Changed: p.changed}
		if err := p.kinds.Follow(k.GroupVersionKind, f); err != nil {
			return fmt.Errorf("watch %s: %w", k.Kind, err)
		}
	}
	if err := p.kinds.Look(ctx); err != nil {
		return err
	}
	for _, k := range kinds {
		told = append(told, p.kinds.Told(k.GroupVersionKind)...)
	}
	if !toolscache.WaitFor(ctx, "", told...) {
		return ctx.Err()
	}
	return nil
}

func handler(changed func(before, after client.Object)) toolscache.ResourceEventHandlerFuncs {
	object := func(o any) client.Object {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		out, _ := o.(client.Object)
		return out
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(nil, object(o)) },
		DeleteFunc: func(o any) { changed(object(o), nil) },
		UpdateFunc: func(before, after any) { changed(object(before), object(after)) },
	}
}

// everything looks at all EIps and Services again.
func (p *Projects) everything() {
	p.mu.Lock()
	p.queueAll(p.book.EIps(""))
	p.mu.Unlock()
	p.wake()
}

func (p *Projects) queueAll(keys []types.NamespacedName) {
	for _, k := range keys {
		p.queue.Add(k)
	}
}

// changed is called by informers.
func (p *Projects) changed(before, after client.Object) {
	if before == nil && after == nil {
		return
	}
	p.mu.Lock()
	var wakes wakes
	if p.own.accepts(before, after) && !p.known(after) {
		wakes = p.note(before, after)
	}
	p.mu.Unlock()
	p.wakeUp(wakes)
}

// wakes is whom a change concerns: Services, or all of them.
type wakes struct {
	all      bool
	services []types.NamespacedName
}

func (p *Projects) wakeUp(w wakes) {
	switch {
	case w.all:
		p.wake()
	case len(w.services) > 0:
		p.wake(w.services...)
	}
}

// note puts an object into the book, and queues the EIps that the change concerns; p.mu is
// held. before may be an older version than the one in the book.
func (p *Projects) note(before, after client.Object) wakes {
	o := either(before, after)
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *corev1.Service:
		return p.noteService(key, as[corev1.Service](after))
	case *corev1.Namespace:
		return p.noteNamespace(before, after)
	case *api.EIp:
		return p.noteEIp(key, before, as[api.EIp](after))
	case *api.FIp:
		return p.noteFIp(key, before, after)
	case *kubeovn.OvnEip:
		return p.noteOvnEip(key.Name, as[kubeovn.OvnEip](after))
	case *kubeovn.OvnDnatRule:
		for _, ovnEip := range p.book.Rule(key.Name, as[kubeovn.OvnDnatRule](after)) {
			p.queueAll(p.book.EIpsFor(ovnEip))
		}
		return wakes{}
	case *kubeovn.Vpc:
		p.book.Vpc(key.Name, as[kubeovn.Vpc](after))
	case *kubeovn.Subnet:
		p.book.Subnet(key.Name, as[kubeovn.Subnet](after))
	case *api.Project:
		p.book.Project(key, as[api.Project](after))
	}
	return p.noteNetwork(before, after)
}

// as is an object of a kind; nil if there is none.
func as[T any, P interface {
	*T
	client.Object
}](o client.Object) *T {
	if o == nil {
		return nil
	}
	return (*T)(o.(P))
}

// noteService looks again at the EIps that a Service asks for or has, before and after.
func (p *Projects) noteService(key types.NamespacedName, after *corev1.Service) wakes {
	concerned := p.book.EIpsOf(key)
	if after == nil {
		p.gone.add(p.book.UID(key), time.Now())
		p.book.Service(key, "", nil)
		delete(p.bound, key)
	} else {
		value := kubeapi.Service(after)
		p.gone.remove(value.UID) // restored from a backup
		p.book.Service(key, value.UID, p.claimOf(value), value.Published()...)
	}
	p.queueNames(key.Namespace, append(concerned, p.book.EIpsOf(key)...))
	return wakes{services: p.affected(key)}
}

func (p *Projects) queueNames(namespace string, names []string) {
	for _, name := range names {
		p.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (p *Projects) noteEIp(key types.NamespacedName, before client.Object, after *api.EIp) wakes {
	var services []types.NamespacedName
	if before == nil || after == nil { // they may have waited for it, or have to do without
		services = p.book.ServicesOf(key)
	}
	p.queueSharers(p.book.GetEIp(key), after)
	p.book.EIp(key, after)
	p.queue.Add(key)
	if was, ok := before.(*api.EIp); after != nil && (!ok || was.Status.IPAddress != after.Status.IPAddress) {
		p.accompanyAgain(p.book.ServicesOf(key))
	}
	if before == nil || after == nil {
		services = p.affected(append(services, p.book.ServicesOf(key)...)...)
	}
	return wakes{services: services}
}

// queueSharers looks again at EIps that name the OvnEip in their status which an EIp names
// there, or does not name any more: one of them may have it now.
func (p *Projects) queueSharers(before, after *api.EIp) {
	refs := [2]string{}
	for i, e := range []*api.EIp{before, after} {
		if e != nil {
			refs[i] = e.Status.OvnEIpRef
		}
	}
	if refs[0] == refs[1] {
		return
	}
	for _, name := range refs {
		if name != "" {
			p.queueAll(p.book.EIpsFor(name))
		}
	}
}

func (p *Projects) noteFIp(key types.NamespacedName, before, after client.Object) wakes {
	p.book.FIp(key, as[api.FIp](after))
	for _, o := range []client.Object{before, after} {
		if f := as[api.FIp](o); f != nil {
			p.queueNames(key.Namespace, slices.DeleteFunc([]string{f.Spec.EIp, f.Status.EIp}, func(name string) bool { return name == "" }))
		}
	}
	return wakes{}
}

// noteOvnEip looks again at the EIps that have the OvnEip, and at those that wait for it
// because it is the gateway of their router, or because kube-ovn gave both the same address.
func (p *Projects) noteOvnEip(name string, after *kubeovn.OvnEip) wakes {
	around := func() {
		p.queueAll(p.book.Behind(name))
		for _, rival := range p.book.Rivals(name) {
			p.queueAll(p.book.EIpsFor(rival))
		}
	}
	around()
	p.book.OvnEip(name, after)
	around()
	p.queueAll(p.book.EIpsFor(name))
	return wakes{}
}

// noteNamespace looks again at a namespace whose annotations are others.
func (p *Projects) noteNamespace(before, after client.Object) wakes {
	name := either(before, after).GetName()
	var annotations map[string]string
	if after != nil {
		annotations = after.GetAnnotations()
	}
	p.book.Namespace(name, annotations)
	if before != nil && after != nil && maps.Equal(before.GetAnnotations(), annotations) {
		return wakes{}
	}
	return p.again(name)
}

// again looks at all of some namespaces.
func (p *Projects) again(namespaces ...string) (out wakes) {
	slices.Sort(namespaces)
	for _, n := range slices.Compact(namespaces) {
		p.queueAll(p.book.EIps(n))
		out.services = append(out.services, p.book.Services(n)...)
	}
	return out
}

// noteNetwork looks again at the namespaces that a network is for. How many addresses a
// subnet has left changes with every address, and is for sentences only.
func (p *Projects) noteNetwork(before, after client.Object) wakes {
	if before != nil && after != nil && reflect.DeepEqual(network(before), network(after)) {
		return broken(after)
	}
	var concerned []string
	for _, o := range []client.Object{before, after} {
		switch o := o.(type) {
		case *kubeovn.Vpc:
			concerned = append(append(concerned, o.Name), o.Spec.Namespaces...)
		case *api.Project:
			if o.Status.Namespace != "" {
				concerned = append(concerned, o.Status.Namespace)
			}
		case *kubeovn.Subnet:
			p.queueAll(p.book.EIps(""))
			return wakes{all: true}
		}
	}
	return p.again(concerned...)
}

// broken are Services whose policy routes somebody has removed.
func broken(o client.Object) (out wakes) {
	if v, ok := o.(*kubeovn.Vpc); ok {
		for _, text := range routes.Broken(v) {
			namespace, name, _ := strings.Cut(text, "/")
			out.services = append(out.services, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return out
}

// network is what of an object says where addresses are from.
func network(o client.Object) any {
	switch o := o.(type) {
	case *kubeovn.Vpc:
		spec := o.Spec
		spec.PolicyRoutes = nil
		return []any{spec, o.Status}
	case *kubeovn.Subnet:
		return []any{o.Labels, o.Spec, o.DeletionTimestamp}
	case *api.Project:
		return []any{o.Spec, o.Status}
	}
	return o
}

func either(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}

// affected are those of the Services that have something else than when they were last
// looked at; p.mu is held.
func (p *Projects) affected(services ...types.NamespacedName) (out []types.NamespacedName) {
	for _, s := range services {
		if uid := p.book.UID(s); uid != "" && p.hasOther(s, func() eip.Binding { return p.book.LookAtService(s, p.o.Rows, time.Now()).Service(uid) }) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// hasOther says whether a Service has to be looked at again: it has something else, or has
// to make something. That it has made it is no reason. One that has never been looked at
// will be.
func (p *Projects) hasOther(s types.NamespacedName, now func() eip.Binding) bool {
	before, looked := p.bound[s]
	if !looked {
		return false
	}
	after := now()
	if before.Plan.Empty() && !after.Plan.Empty() {
		return true
	}
	before.Plan = after.Plan
	p.bound[s] = before
	before.Again = after.Again
	return !reflect.DeepEqual(before, after)
}
