package apiretry

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// lister has an informer begin with a list, not with a watch that sends all objects one by
// one: with 1,000 Services that costs the API server and us a tenth of a second more, of
// two processors. The list is as fresh as that watch would be.
type lister struct {
	toolscache.ListerWatcher
	with toolscache.ListerWatcherWithContext
}

func newInformer(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(lister{lw, toolscache.ToListerWatcherWithContext(lw)}, kind, resync, by)
}

// IsWatchListSemanticsUnSupported is how informers ask.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext lists what is there now, where an informer would take whatever the API
// server has in its cache.
func (l lister) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.Limit = "", 0
	}
	return l.with.ListWithContext(ctx, o)
}

func (l lister) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return l.with.WatchWithContext(ctx, o)
}
