package agent

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/patient"
)

// configMapPatience is how long the agent waits at its start for the ConfigMap of
// kube-vip's cloud provider to be read. Without it everything else goes on.
const configMapPatience = 5 * time.Second

// followConfigMap follows the ConfigMap, and nothing else. The right to read it
// may be missing: that is told once, and it is read as soon as the right is there.
func (a *agent) followConfigMap(ctx context.Context, o Options) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	patience, lost := context.WithTimeout(ctx, configMapPatience)
	defer lost()
	var told atomic.Bool
	c, err := patient.NewCache(o.Log)(o.REST, cache.Options{
		Scheme:                       scheme,
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: ptr.To(true),
		// The namespace is here, not in DefaultNamespaces: requests are for that
		// namespace alone, which is what the right is for, either way, but a cache of
		// several namespaces has goroutines that end only when everything was read.
		DefaultFieldSelector: fields.Set{"metadata.namespace": o.KubeVIP.Namespace, "metadata.name": o.KubeVIP.Name}.AsSelector(),
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			if !apierrors.IsForbidden(err) {
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
				return
			}
			lost()
			if !told.Swap(true) {
				o.Log.Warn("the ConfigMap of kube-vip's cloud provider may not be read; going on without it until it may", "namespace", o.KubeVIP.Namespace, "name", o.KubeVIP.Name, "error", err)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	a.kubevip = c
	kinds := notes{&corev1.ConfigMap{}: func(c *changes, _ client.Object) {
		told.Store(false)
		c.configMap = true
	}}
	if err := a.inbox.follow(ctx, c, kinds); err != nil {
		return err
	}
	a.running.Go(func() { _ = c.Start(a.background) })
	if !c.WaitForCacheSync(patience) && ctx.Err() == nil && !told.Load() {
		o.Log.Warn("the ConfigMap of kube-vip's cloud provider cannot be read yet; going on without it", "namespace", o.KubeVIP.Namespace, "name", o.KubeVIP.Name)
	}
	return ctx.Err()
}

// readConfigMap takes over what the ConfigMap says: pools, interfaces, who
// shares. All Services are read again in its light.
func (a *agent) readConfigMap() {
	var cm corev1.ConfigMap
	config := kubevip.Parse(nil)
	if a.kubevip.Get(a.background, a.configMap, &cm) == nil {
		config = kubevip.Parse(&cm)
	}
	a.directory.kubevip = config
	a.readPools(a.background)
	var list corev1.ServiceList
	if err := a.cache.List(a.background, &list); err != nil {
		return
	}
	for i := range list.Items {
		a.readService(client.ObjectKeyFromObject(&list.Items[i]))
	}
}

func serviceKey(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
