package sources

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"fairlead.io/internal/compat/kubevip"
)

// configMapPatience is how long the agent waits at its start for the ConfigMap of
// kube-vip's cloud provider to be read. Without it everything else goes on.
const configMapPatience = 5 * time.Second

// followKubeVIP follows the ConfigMap, and nothing else. If the right to read it is
// missing, it logs that once, and reads it as soon as it may.
func (r *Reader) followKubeVIP(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	o := r.o
	patience, lost := context.WithTimeout(ctx, configMapPatience)
	defer lost()
	var logged atomic.Bool
	c, err := NamespaceCache(o.REST, o.KubeVIP.Namespace, o.Log, cache.Options{
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", o.KubeVIP.Name),
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			if !apierrors.IsForbidden(err) {
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
				return
			}
			lost()
			if !logged.Swap(true) {
				o.Log.Warn("no permission to read the kube-vip ConfigMap; continuing without it until granted", "namespace", o.KubeVIP.Namespace, "name", o.KubeVIP.Name, "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	r.kubevip = c
	if err := OnChange(ctx, c, &corev1.ConfigMap{}, func() {
		logged.Store(false)
		changed()
	}); err != nil {
		return err
	}
	running.Go(func() { _ = c.Start(background) })
	if !c.WaitForCacheSync(patience) && ctx.Err() == nil && !logged.Load() {
		o.Log.Warn("cannot read the kube-vip ConfigMap yet; continuing without it", "namespace", o.KubeVIP.Namespace, "name", o.KubeVIP.Name)
	}
	return ctx.Err()
}

// readConfigMap takes over what the ConfigMap says now.
func (r *Reader) readConfigMap(ctx context.Context) {
	if r.kubevip == nil {
		return
	}
	var cm corev1.ConfigMap
	r.config = kubevip.Parse(nil)
	if r.kubevip.Get(ctx, r.o.KubeVIP, &cm) == nil {
		r.config = kubevip.Parse(&cm)
	}
}
