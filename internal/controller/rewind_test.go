package controller

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// readingInformer is an informer that has read up to a version.
type readingInformer struct {
	cache.Informer
	version int
}

func (i *readingInformer) LastSyncResourceVersion() string { return strconv.Itoa(i.version) }

// A cache that goes on while the API server says how far it is is not ahead of it. One
// that is of a lost future is.
func TestAhead(t *testing.T) {
	informer := &readingInformer{version: 100}
	reached := 100
	api := fake.NewClientset()
	api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(reached)}}
		informer.version++ // somebody writes all the time
		return true, list, nil
	})
	r := &rewinds{common: &common{client: api}, informers: func(context.Context) ([]cache.Informer, error) { return []cache.Informer{informer}, nil }}
	if ahead, err := r.ahead(t.Context()); ahead || err != nil {
		t.Errorf("a cache that was read later: %v, %v", ahead, err)
	}
	reached = 50
	if ahead, err := r.ahead(t.Context()); !ahead || err != nil {
		t.Errorf("a cache of a lost future: %v, %v", ahead, err)
	}
}
