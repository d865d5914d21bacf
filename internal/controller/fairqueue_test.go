package controller

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Namespaces take turns, whoever has more. Within one, it is first in, first out.
func TestTurns(t *testing.T) {
	q := &turns[string]{of: func(s string) string { return s[:1] }}
	push := func(items ...string) {
		for _, i := range items {
			q.Push(i)
		}
	}
	var got []string
	pop := func(n int) {
		for range n {
			got = append(got, q.Pop())
		}
	}
	push("a1", "a2", "a3", "a4", "b1")
	pop(2)
	push("c1", "b2")
	pop(3)
	push("a5")
	q.DropFromLongest() // a3
	pop(q.Len())
	if want := "[a1 b1 a2 c1 b2 a4 a5]"; fmt.Sprint(got) != want || q.Len() != 0 || len(q.groups) != 0 {
		t.Errorf("%v, want %s; %d left", got, want, q.Len())
	}
	q.DropFromLongest()
	push("d1")
	q.DropFromLongest()
	if push("e1"); q.Len() != 1 || q.Pop() != "e1" {
		t.Error("what was dropped is still there")
	}
}

// A Service of a namespace is next but one, however many of another wait.
func TestFairQueue(t *testing.T) {
	q := newFairQueue("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, maxRetry))
	defer q.ShutDown()
	of := func(namespace string, i int) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}}
	}
	for i := range 1000 {
		q.Add(of("hostile", i))
		q.Add(of("hostile", 0))
	}
	q.Add(of("shop", 1))
	for i := range 2 {
		if r, _ := q.Get(); r.Namespace == "shop" {
			return
		} else if i == 1 {
			t.Errorf("second is %v", r)
		}
	}
}
