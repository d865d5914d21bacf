package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waker puts Services into the Service controller's queue. It is one of that
// controller's sources: from it, it gets the queue. Who is woken before that
// waits for it.
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
func (w *waker) wake(services []types.NamespacedName) {
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
