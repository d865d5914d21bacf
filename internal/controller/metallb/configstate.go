package metallb

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/configstate"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/prose"
)

// maxSummary is how long the list of what is wrong may be, which is read in a table.
const maxSummary = 1000

// configurationState reports in one object whether all objects are used, where its
// kind and its namespace exist.
type configurationState struct {
	writer configstate.Writer
	pod    *metav1.OwnerReference // of this controller, if it is in that namespace
	has    func(schema.GroupVersionKind) bool
	log    *slog.Logger
}

func newConfigurationState(t controller.Tools, namespace string, pod *metav1.OwnerReference) configurationState {
	return configurationState{pod: pod, has: t.Has, log: t.Log, writer: configstate.Writer{
		Key:    types.NamespacedName{Namespace: namespace, Name: metallb.StateName},
		Labels: map[string]string{metallbapi.LabelComponentType: metallb.StateName}, Condition: "poolReconcilerValid",
		Reader: t.Cache, Client: t.Client,
		MayCreate: func(ctx context.Context) bool {
			var ns corev1.Namespace
			return t.Cache.Get(ctx, types.NamespacedName{Name: namespace}, &ns) == nil && ns.DeletionTimestamp == nil
		},
	}}
}

// write reports what is wrong, if anything. It says whether the object does, or need
// not be there. With the controller's pod it goes; the next leader makes another.
func (c *configurationState) write(ctx context.Context, wrong string) bool {
	if !c.has(metallb.StateKind) {
		return true
	}
	err := c.writer.Write(ctx, c.pod, prose.Cut(wrong, maxSummary))
	if err != nil && ctx.Err() == nil {
		c.log.Warn("ConfigurationState not written", "object", c.writer.Key, "error", err)
	}
	return err == nil
}
