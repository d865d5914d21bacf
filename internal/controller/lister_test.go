package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// questions keeps what an informer asks for.
type questions struct {
	mu             sync.Mutex
	lists, watches []metav1.ListOptions
}

func (a *questions) source() *toolscache.ListWatch {
	note := func(to *[]metav1.ListOptions, o metav1.ListOptions) {
		a.mu.Lock()
		defer a.mu.Unlock()
		*to = append(*to, o)
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			note(&a.lists, o)
			return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			note(&a.watches, o)
			return watch.NewFake(), nil
		},
	}
}

// The informer of Services lists what is there now, all at once, and watches from there.
func TestServicesBeginWithAFreshList(t *testing.T) {
	var a questions
	informer := newInformer(a.source(), &corev1.Service{}, 0, toolscache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	deadline, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if !toolscache.WaitFor(deadline, "", informer.HasSyncedChecker()) {
		t.Fatal("the informer has nothing after a minute")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lists) != 1 || a.lists[0].ResourceVersion != "" || a.lists[0].Limit != 0 {
		t.Errorf("lists %+v", a.lists)
	}
	for _, w := range a.watches {
		if w.ResourceVersion != "7" || w.SendInitialEvents != nil {
			t.Errorf("watch %+v", w)
		}
	}
	if keys := informer.GetStore().ListKeys(); len(keys) != 1 || keys[0] != "web" {
		t.Errorf("store %v", keys)
	}
}
