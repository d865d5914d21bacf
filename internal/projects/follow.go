package projects

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/eip"
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
