// Package carrypods makes the pods that run fairlead carry, and watches them. What they
// should be is decided elsewhere; it knows Kubernetes, and no cloud.
package carrypods

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"fairlead.io/internal/apiretry"
	backend "fairlead.io/internal/backend/cloudsigma"
	format "fairlead.io/internal/compat/cloudsigma"
)

var _ backend.Pods = (*Pods)(nil)

// Pods are those of one cluster.
type Pods struct {
	writer   kubernetes.Interface
	informer cache.SharedIndexInformer
}

// New returns the pods of a cluster. They are asked for one by one until Run has a list
// of them.
func New(c *rest.Config, log *slog.Logger) (*Pods, error) {
	fast := rest.CopyConfig(c)
	fast.QPS = -1 // the API server limits requests
	writer, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return nil, fmt.Errorf("create client for pods: %w", err)
	}
	reader, err := kubernetes.NewForConfig(apiretry.Config(c, log))
	if err != nil {
		return nil, fmt.Errorf("create client for pods: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(reader, 0, informers.WithNamespace(format.PodNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{format.LabelApp: format.PodApp}.String()
		}))
	return &Pods{writer, factory.Core().V1().Pods().Informer()}, nil
}

// Get returns the pod of that name, nil if there is none.
func (p *Pods) Get(ctx context.Context, name string) (*backend.Pod, error) {
	if p.informer.HasSynced() {
		object, there, err := p.informer.GetStore().GetByKey(format.PodNamespace + "/" + name)
		if err != nil {
			return nil, fmt.Errorf("read pod %s: %w", name, err)
		}
		if pod, ok := object.(*corev1.Pod); ok && there {
			return read(pod), nil
		}
		return nil, nil
	}
	pod, err := p.writer.CoreV1().Pods(format.PodNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read pod %s/%s: %w", format.PodNamespace, name, err)
	}
	return read(pod), nil
}

// NodeOf returns the node of a pod; "" if there is none of that name, or the controller
// may not read it.
func (p *Pods) NodeOf(ctx context.Context, name string) (string, error) {
	switch pod, err := p.Get(ctx, name); {
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil || pod == nil:
		return "", err
	default:
		return pod.Node, nil
	}
}

// Create makes a pod. It succeeds if there is one of that name, unless that is another
// program's: one without our label is not watched.
func (p *Pods) Create(ctx context.Context, pod *backend.Pod) error {
	pods := p.writer.CoreV1().Pods(format.PodNamespace)
	_, err := pods.Create(ctx, compose(pod), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var there *corev1.Pod
		there, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil // gone meanwhile, which is an event
		case err == nil && there.Labels[format.LabelApp] != format.PodApp:
			err = fmt.Errorf("there is one without the label %s=%s; delete it", format.LabelApp, format.PodApp)
		}
	}
	if err != nil {
		return fmt.Errorf("create pod %s/%s: %w", format.PodNamespace, pod.Name, err)
	}
	return nil
}

// Delete deletes a pod, which gets so much time to end. Another one of that name is
// left alone.
func (p *Pods) Delete(ctx context.Context, pod *backend.Pod, grace time.Duration) error {
	seconds := int64(grace / time.Second)
	err := p.writer.CoreV1().Pods(format.PodNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &seconds, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", format.PodNamespace, pod.Name, err)
	}
	return nil
}

// Run watches the pods until ctx ends. It is called once.
func (p *Pods) Run(ctx context.Context, changed func(name string)) error {
	tell := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if pod, ok := object.(*corev1.Pod); ok {
			changed(pod.Name)
		}
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(before, now any) {
			b, n := before.(*corev1.Pod), now.(*corev1.Pod)
			if *read(b) != *read(n) {
				changed(n.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	p.informer.RunWithContext(ctx)
	return nil
}
