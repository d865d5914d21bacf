package soak

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/test/kit/invariant"
)

// watch tells the checker what Services have, in the order in which the API server has
// written it, until ctx ends. Without an API server nothing changes.
func (w *world) watch(ctx context.Context) {
	known := map[string]bool{}
	for ctx.Err() == nil {
		if err := w.watchOnce(ctx, known); err != nil && ctx.Err() == nil {
			w.check.Note(time.Now(), "watch Services: "+err.Error())
		}
		pause(ctx, 200*time.Millisecond)
	}
}

func (w *world) watchOnce(ctx context.Context, known map[string]bool) error {
	var list corev1.ServiceList
	if err := w.api.List(ctx, &list); err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[w.seen(&list.Items[i], known, false)] = true
	}
	for name := range known {
		if !there[name] {
			w.check.Holds(time.Now(), name, invariant.Service{})
			delete(known, name)
		}
	}
	changes, err := w.api.Watch(ctx, &corev1.ServiceList{}, &kube.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for e := range changes.ResultChan() {
		if s, is := e.Object.(*corev1.Service); is {
			w.seen(s, known, e.Type == watch.Deleted)
		}
	}
	return nil
}

// seen tells of one Service, and returns its name.
func (w *world) seen(s *corev1.Service, known map[string]bool, gone bool) (name string) {
	name = s.Namespace + "/" + s.Name
	if s.Namespace != namespace && s.Namespace != othersNamespace {
		return name
	}
	has := invariant.Service{Share: s.Annotations[native.AnnotationShare]}
	if known[name] = !gone; !gone {
		has.Addresses = kubeapi.Service(s).Published()
	} else {
		delete(known, name)
	}
	w.check.Holds(time.Now(), name, has)
	return name
}
