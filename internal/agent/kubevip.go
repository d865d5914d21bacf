package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/patient"
)

// configMapPatience is how long the agent waits at its start for the ConfigMap of
// kube-vip's cloud provider to be read. Without it everything else goes on.
const configMapPatience = 5 * time.Second

// followConfigMap follows the ConfigMap, and nothing else.
func (a *agent) followConfigMap(ctx context.Context, o Options) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := patient.NewCache(o.Log)(o.REST, cache.Options{
		Scheme:                       scheme,
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: ptr.To(true),
		DefaultNamespaces:            map[string]cache.Config{o.KubeVIP.Namespace: {}},
		DefaultFieldSelector:         fields.OneTermEqualSelector("metadata.name", o.KubeVIP.Name),
	})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	a.kubevip = c
	kinds := notes{&corev1.ConfigMap{}: func(c *changes, _ client.Object) { c.configMap = true }}
	if err := a.inbox.follow(ctx, c, kinds); err != nil {
		return err
	}
	a.running.Go(func() { _ = c.Start(a.background) })
	patience, cancel := context.WithTimeout(ctx, configMapPatience)
	defer cancel()
	if !c.WaitForCacheSync(patience) && ctx.Err() == nil {
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
