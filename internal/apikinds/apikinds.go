// Package apikinds follows kinds that the API server may not serve yet: those of a
// system that may be installed later or never, or that we have no right to read yet:
//
//	kinds, err := apikinds.New(config, log, dialect.Kinds()...)
//
// There are two ways to use it. The controller watches each kind as soon as it can,
// with one cache, and asks for rights first, since it reports what is missing:
//
//	kinds.Cache = mgr.GetCache()
//	err = kinds.Look(ctx)         // watch what is there
//	err = kinds.Follow(kind, …)   // now, or when it comes
//	err = mgr.Add(kinds)          // and look again
//
// Agents need all kinds of a set or none, in a cache that they make only then. There
// may be hundreds of agents: they ask less often, and only for what is served.
//
//	there, err := kinds.Served(ctx)
//	err = kinds.WhenServed(ctx, "not watched yet; trying again", watch)
//
// An API server that does not answer has not said no: all of these wait until it does.
package apikinds

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// period is how often kinds that are awaited are asked for, with as much again
	// at random: every node of a large cluster may ask.
	period = 4 * time.Second
	// pause before an API server that did not answer is asked again.
	pause = time.Second
)

// discoverer is what is asked, as client-go's discovery client has it.
type discoverer interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// present says whether the API server serves all of kinds. It waits for its
// answer, and fails only if ctx ends before.
func present(ctx context.Context, d discoverer, kinds ...schema.GroupVersionKind) (bool, error) {
	for {
		there, err := ask(ctx, d, kinds)
		if err == nil {
			return there, nil
		}
		if err := wait(ctx, pause); err != nil {
			return false, err
		}
	}
}

func ask(ctx context.Context, d discoverer, kinds []schema.GroupVersionKind) (bool, error) {
	known := map[schema.GroupVersion][]metav1.APIResource{}
	for _, kind := range kinds {
		gv := kind.GroupVersion()
		if _, asked := known[gv]; !asked {
			list, err := d.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			known[gv] = list.APIResources
		}
		if !slices.ContainsFunc(known[gv], func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			return false, nil
		}
	}
	return true, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// onceEach asks for each group and version once, also if several want to know at once.
type onceEach struct {
	discoverer
	mu      sync.Mutex
	answers map[string]*answer
}

// answer is what was said about a group and version; nil: nothing yet.
type answer struct {
	mu   sync.Mutex
	list *metav1.APIResourceList
}

func newOnceEach(d discoverer) *onceEach {
	return &onceEach{discoverer: d, answers: map[string]*answer{}}
}

func (r *onceEach) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	r.mu.Lock()
	a := r.answers[groupVersion]
	if a == nil {
		a = &answer{}
		r.answers[groupVersion] = a
	}
	r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.list != nil {
		return a.list, nil
	}
	list, err := r.discoverer.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	switch {
	case apierrors.IsNotFound(err):
		list = &metav1.APIResourceList{}
	case err != nil:
		return nil, err
	}
	a.list = list
	return list, nil
}
