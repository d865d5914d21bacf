package controller

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newFairQueue makes a work queue that takes turns between namespaces: a thousand
// Services of one of them, changed without end, delay a Service of another by one.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
		Name: name, Queue: &turns[reconcile.Request]{of: func(r reconcile.Request) string { return r.Namespace }},
	})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
}

// turns is a list of items that is taken from by turns: one of each group, then the
// next of each. Within a group it is first in, first out. All of it costs the same
// however long it is. It is not safe for concurrent use.
type turns[T any] struct {
	of     func(T) string
	groups map[string]*line[T]
	order  []*line[T] // of groups that have items; the first one's turn is next
	n      int
}

// line is the items of one group.
type line[T any] struct {
	name  string
	items []T
}

// Touch has nothing to do: an item that is added again keeps its place.
func (t *turns[T]) Touch(T) {}

// Push adds an item.
func (t *turns[T]) Push(item T) {
	if t.groups == nil {
		t.groups = map[string]*line[T]{}
	}
	name := t.of(item)
	l := t.groups[name]
	if l == nil {
		l = &line[T]{name: name}
		t.groups[name] = l
		t.order = append(t.order, l)
	}
	l.items = append(l.items, item)
	t.n++
}

// Len is how many items there are.
func (t *turns[T]) Len() int { return t.n }

// Pop takes the next item; there must be one.
func (t *turns[T]) Pop() T {
	l := t.order[0]
	t.order[0] = nil // the array lives on
	t.order = t.order[1:]
	item := l.pop()
	t.n--
	if len(l.items) > 0 {
		t.order = append(t.order, l)
	} else {
		delete(t.groups, l.name)
	}
	return item
}

// DropFromLongest drops the oldest item of the group that has most.
func (t *turns[T]) DropFromLongest() {
	at := -1
	for i, l := range t.order {
		if at < 0 || len(l.items) > len(t.order[at].items) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	l := t.order[at]
	l.pop()
	if t.n--; len(l.items) == 0 {
		delete(t.groups, l.name)
		t.order = append(t.order[:at:at], t.order[at+1:]...)
	}
}

func (l *line[T]) pop() T {
	item := l.items[0]
	var none T
	l.items[0] = none // the array lives on
	l.items = l.items[1:]
	return item
}
