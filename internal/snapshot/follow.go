package snapshot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// followPause is the time after which a list or a watch that failed is tried again,
	// and the least time between two watches.
	followPause = time.Second
	// absentPause is the same for kinds that are not there, or may not be listed: this
	// changes rarely.
	absentPause = 30 * time.Second
	// listPause is how often a kind is listed that may not be watched.
	listPause = 10 * time.Second
)

// follower keeps the objects of one kind up to date by a watch.
type follower struct {
	kind
	client  client.WithWatch
	changed func()

	mu      sync.Mutex
	objects map[types.NamespacedName]runtime.Object
	dirty   bool // since the last list was made
	made    client.ObjectList
	// read: it was listed, or it is known that it cannot be.
	read bool
	// behind: the API server could not be asked since.
	behind bool
	// absent and refused are why there is nothing.
	absent, refused bool
}

// follow runs until ctx ends.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		version, err := f.list(ctx)
		f.note(ctx, err)
		if err == nil {
			err = f.watch(ctx, version)
		}
		pause := followPause
		f.mu.Lock()
		switch {
		case f.absent || f.refused:
			pause = absentPause
		case apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
			pause = listPause
		case err != nil && !expired(err) && ctx.Err() == nil:
			f.behind = true
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// expired says whether an error of a watch is only that it began too long ago.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// fresh returns an empty list of the kind.
func (f *follower) fresh() client.ObjectList { return emptied(f.kind.list) }

// standsIn says whether the kind is the version of another one that can be read.
func (f *follower) standsIn(all []*follower) bool {
	for _, o := range all {
		if !f.unless.Empty() && o.gvk == f.unless {
			_, _, absent, _ := o.state()
			return !absent
		}
	}
	return false
}

// list reads all objects, and returns the version from which to watch.
func (f *follower) list(ctx context.Context) (string, error) {
	list := f.fresh()
	if err := f.client.List(ctx, list, f.options...); err != nil {
		return "", err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return "", err
	}
	all := make(map[types.NamespacedName]runtime.Object, len(items))
	for _, item := range items {
		if key, ok := tidy(item); ok {
			all[key] = item
		}
	}
	f.mu.Lock()
	f.objects, f.dirty = all, true
	f.mu.Unlock()
	return list.GetResourceVersion(), nil
}

// tidy drops what nobody reads, and returns the name of the object.
func tidy(item runtime.Object) (types.NamespacedName, bool) {
	o, ok := item.(client.Object)
	if !ok {
		return types.NamespacedName{}, false
	}
	o.SetManagedFields(nil)
	return client.ObjectKeyFromObject(o), true
}

// note takes over what came of a list.
func (f *follower) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	was := [...]bool{f.read, f.behind, f.absent, f.refused}
	f.absent = err != nil && f.optional && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err))
	f.refused = apierrors.IsForbidden(err)
	f.behind = err != nil && !f.absent && !f.refused
	if f.read = f.read || !f.behind; f.absent || f.refused {
		f.objects, f.dirty = nil, f.dirty || len(f.objects) > 0
	}
	differs := err == nil || was != [...]bool{f.read, f.behind, f.absent, f.refused}
	f.mu.Unlock()
	if differs {
		f.changed()
	}
}

// watch takes over changes until the objects have to be listed again.
func (f *follower) watch(ctx context.Context, version string) error {
	for {
		w, err := f.client.Watch(ctx, f.fresh(), append(slices.Clone(f.options), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true},
		})...)
		if err != nil {
			return err
		}
		began := time.Now()
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				w.Stop()
				return apierrors.FromObject(e.Object)
			}
			version = f.apply(e, version)
		}
		w.Stop()
		if time.Since(began) < followPause { // it ends after minutes, in order
			select {
			case <-ctx.Done():
			case <-time.After(followPause):
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// apply takes over one change, and returns the version from which to go on.
func (f *follower) apply(e watch.Event, version string) string {
	key, ok := tidy(e.Object)
	if !ok {
		return version
	}
	if o, ok := e.Object.(client.Object); ok {
		version = o.GetResourceVersion()
	}
	if e.Type == watch.Bookmark {
		return version
	}
	f.mu.Lock()
	if e.Type == watch.Deleted {
		delete(f.objects, key)
	} else {
		f.objects[key] = e.Object
	}
	f.dirty = true
	f.mu.Unlock()
	f.changed()
	return version
}

// lists returns all objects as a list, in the order of their names, and whether it is
// another one than the last time.
func (f *follower) lists() (list client.ObjectList, differs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dirty && f.made != nil {
		return f.made, false
	}
	keys := make([]types.NamespacedName, 0, len(f.objects))
	for key := range f.objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	all := make([]runtime.Object, len(keys))
	for i, key := range keys {
		all[i] = f.objects[key]
	}
	f.made, f.dirty = f.fresh(), false
	_ = meta.SetList(f.made, all) // it cannot fail: they are from such a list
	return f.made, true
}

// state returns whether the kind was read, whether it is behind, and why there is
// nothing of it.
func (f *follower) state() (read, behind, absent, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read, f.behind, f.absent, f.refused
}
