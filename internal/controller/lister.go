package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// lister has the informer of Services begin with a list, not with a watch that sends all of
// them one by one, which costs the API server and us more time. The list is as fresh as that
// watch would be. It is in memory as a whole for a moment, before objects are stripped to what
// is read: for kinds of which much is dropped, as of Nodes, that is not worth it.
type lister struct {
	toolscache.ListerWatcher
	with toolscache.ListerWatcherWithContext
}

func newInformer(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, is := kind.(*corev1.Service); !is {
		return toolscache.NewSharedIndexInformer(lw, kind, resync, by)
	}
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
