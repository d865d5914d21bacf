package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
)

// taintRemover removes further taints from Nodes that the cloud knows. The taint that
// every cloud has is removed by the library's controller, and always first.
type taintRemover struct {
	keys      []string
	nodes     corelisters.NodeLister
	instances cloudprovider.InstancesV2
	api       kubernetes.Interface
	log       *slog.Logger
	queue     workqueue.TypedRateLimitingInterface[string]
}

// watch puts Nodes with such a taint into the queue.
func (r *taintRemover) watch(informer cache.SharedIndexInformer) error {
	enqueue := func(o any) {
		if n, is := o.(*corev1.Node); is && r.waits(n) {
			r.queue.Add(n.Name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) }})
	return err
}

// waits says whether a Node has one of the taints, and nobody else has to come
// before us.
func (r *taintRemover) waits(n *corev1.Node) bool {
	return !uninitialized(n) && slices.ContainsFunc(n.Spec.Taints, r.ours)
}

func (r *taintRemover) ours(t corev1.Taint) bool { return slices.Contains(r.keys, t.Key) }

func (r *taintRemover) run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for {
		name, end := r.queue.Get()
		if end {
			return
		}
		if err := r.remove(ctx, name); err != nil && ctx.Err() == nil {
			r.log.Warn("taints stay on a node", "node", name, "error", err)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// remove removes the taints of a Node whose server there is.
func (r *taintRemover) remove(ctx context.Context, name string) error {
	n, err := r.nodes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !r.waits(n) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := r.instances.InstanceMetadata(ctx, n); err != nil {
		return fmt.Errorf("find the server: %w", err)
	}
	// What is in memory lacks what is large.
	if n, err = r.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil || !r.waits(n) {
		return ignoreGone(err)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, r.ours)
	_, err = r.api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// ignoreGone is nil for an object that is gone.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
