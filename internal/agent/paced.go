package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

const (
	// reportPause is the least time between two passes of one writer.
	reportPause = time.Second
	// failurePause is the longest between two that fail.
	failurePause = 4 * time.Second
)

// wake has whoever waits on c look again.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// paced calls pass whenever something has arrived, but not too often, until ctx
// ends. What fails is tried again, and told once until it succeeds.
func paced(ctx context.Context, log *slog.Logger, what string, arrived chan struct{}, pass func(context.Context) (more bool, err error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := reportPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-arrived:
		}
		more, err := pass(ctx)
		switch {
		case err == nil:
			pause = reportPause
		case ctx.Err() != nil:
			return
		default:
			if pause == reportPause {
				log.Warn(what+" not written; trying again", "error", err)
			}
			pause = min(2*pause, failurePause)
		}
		if more || err != nil {
			wake(arrived)
		}
		timer.Reset(pause)
	}
}

// ownership says what an object goes with that tells of this agent.
type ownership struct {
	node   string
	client client.Client
	pod    *metav1.OwnerReference
}

// reference is to the agent's pod, as MetalLB has it, or to the node's Agent
// object, and so to the Node, where the pod cannot be an owner.
func (o ownership) reference(ctx context.Context) (metav1.OwnerReference, error) {
	if o.pod != nil {
		return *o.pod, nil
	}
	var agent v1alpha1.Agent
	err := o.client.Get(ctx, types.NamespacedName{Name: o.node}, &agent)
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent", Name: o.node, UID: agent.UID}, err
}

// patchStatus writes fields of an object's status; nil removes one.
func patchStatus(ctx context.Context, c client.Client, o client.Object, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
}
