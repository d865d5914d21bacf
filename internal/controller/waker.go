package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
)

// waker puts Services into the queue of one backend's controller. It is one of that
// controller's sources: that is how it gets the queue. Services woken before that
// wait for it.
type waker struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	early []types.NamespacedName
}

// Start receives the queue; controller-runtime calls it.
func (w *waker) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	w.add(w.early)
	w.early = nil
	return nil
}

// wake never blocks.
func (w *waker) wake(services ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.early = append(w.early, services...)
		return
	}
	w.add(services)
}

func (w *waker) add(services []types.NamespacedName) {
	for _, s := range services {
		w.queue.Add(reconcile.Request{NamespacedName: s})
	}
}

// waiting is how many Services are in the queue.
func (w *waker) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		return 0
	}
	return w.queue.Len()
}

// wakers are those of all backends.
type wakers struct {
	ctx     context.Context
	all     map[config.Backend]*waker
	cache   client.Reader
	classes *classes
}

// wake puts each Service into the queue of the backend that serves it, or of all if
// that is not known; it only queues.
func (w *wakers) wake(services []types.NamespacedName) {
	for _, key := range services {
		if one := w.of(key); one != nil {
			one.wake(key)
			continue
		}
		for _, one := range w.all {
			one.wake(key)
		}
	}
}

func (w *wakers) of(key types.NamespacedName) *waker {
	if len(w.all) == 1 {
		return nil
	}
	var s corev1.Service
	if w.cache == nil || w.cache.Get(w.ctx, key, &s) != nil {
		return nil
	}
	if class := w.classes.of(kubeapi.Service(&s)); class != nil {
		return w.all[class.Backend]
	}
	return nil
}
