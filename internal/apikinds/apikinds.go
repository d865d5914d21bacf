// Package kinds tells whether the API server serves kinds that need not be
// there: those of a system that may or may not be installed, or be installed
// later. Present asks once, for what has to be decided at the start; Await is for
// a goroutine that begins to watch kinds as soon as they are there:
//
//	d, err := discovery.NewDiscoveryClientForConfig(config)
//	pools := metallb.GroupVersion.WithKind("IPAddressPool")
//	there, err := apikinds.Present(ctx, d, pools)
//	…
//	go func() {
//		if apikinds.Await(ctx, d, pools) == nil {
//			informer, err := cache.GetInformer(ctx, &metallb.IPAddressPool{}, …)
//		}
//	}()
//
// Refused is about rights: a kind may be there, and we may not be allowed to read
// it.
//
// An API server that does not answer is not one that says no: all of them then
// wait until it does.
package apikinds

import (
	"context"
	"math/rand/v2"
	"slices"
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

// Discovery is what is asked, as client-go's discovery client has it.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Present says whether the API server serves all of kinds. It waits for its
// answer, and fails only if ctx ends before.
func Present(ctx context.Context, d Discovery, kinds ...schema.GroupVersionKind) (bool, error) {
	for {
		present, err := ask(ctx, d, kinds)
		if err == nil {
			return present, nil
		}
		if err := wait(ctx, pause); err != nil {
			return false, err
		}
	}
}

// Await returns once the API server serves all of kinds. It fails only if ctx
// ends before.
func Await(ctx context.Context, d Discovery, kinds ...schema.GroupVersionKind) error {
	for {
		present, err := Present(ctx, d, kinds...)
		if present || err != nil {
			return err
		}
		if err := wait(ctx, period+rand.N(period)); err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, d Discovery, kinds []schema.GroupVersionKind) (bool, error) {
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
