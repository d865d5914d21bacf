package metallb

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
)

// As MetalLB's controller names its ConfigurationState and what is in it.
const (
	stateName      = metallb.StateName
	stateCondition = "poolReconcilerValid"
	stateFine      = "Reconciled"
	stateWrong     = "ConfigurationError"
)

// stateSummaryMost is how long the summary may be, which is read in a table.
const stateSummaryMost = 1000

// configurationState says in one object of MetalLB's whether all objects are
// used, where there are its kind and its namespace. It is written when that
// changes, and made again if it is deleted.
type configurationState struct {
	namespace string
	pod       *metav1.OwnerReference // of this controller, if it is in that namespace
	has       func(schema.GroupVersionKind) bool
	cache     client.Reader
	client    client.Client
	log       *slog.Logger

	// refused is what the API server has not kept as it was written.
	refused *metallbapi.ConfigurationStateStatus
}

// write has the state tell what is wrong, if anything. It says whether it does, or
// need not be there.
func (c *configurationState) write(ctx context.Context, wrong string) bool {
	if !c.has(metallb.StateKind) {
		return true
	}
	key := types.NamespacedName{Namespace: c.namespace, Name: stateName}
	var have metallbapi.ConfigurationState
	err := c.cache.Get(ctx, key, &have)
	if apierrors.IsNotFound(err) {
		var ns corev1.Namespace
		if err := c.cache.Get(ctx, types.NamespacedName{Name: key.Namespace}, &ns); err != nil || ns.DeletionTimestamp != nil {
			return true
		}
		fresh := &metallbapi.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{metallbapi.LabelComponentType: stateName}}}
		if pod := c.pod; pod != nil { // when it goes, the next leader makes another
			fresh.OwnerReferences = []metav1.OwnerReference{*pod}
		}
		if err = c.client.Create(ctx, fresh, client.FieldOwner(component)); apierrors.IsAlreadyExists(err) {
			err = nil // the cache is behind
		}
	}
	if err == nil {
		err = c.say(ctx, key, have.Status, stateOf(wrong, have.Status.Conditions, time.Now()))
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("ConfigurationState not written", "object", key, "error", err)
	}
	return err == nil
}

func (c *configurationState) say(ctx context.Context, key types.NamespacedName, have, want metallbapi.ConfigurationStateStatus) error {
	if equality.Semantic.DeepEqual(have, want) || c.refused != nil && equality.Semantic.DeepEqual(*c.refused, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"result": want.Result, "errorSummary": want.ErrorSummary, "conditions": want.Conditions,
	}})
	if err != nil {
		return err
	}
	answer := &metallbapi.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(component)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if c.refused = nil; !equality.Semantic.DeepEqual(answer.Status, want) {
		c.refused = &want
	}
	return nil
}

// stateOf is the status that tells what is wrong, of an object that has conditions
// now.
func stateOf(wrong string, conditions []metav1.Condition, now time.Time) metallbapi.ConfigurationStateStatus {
	s := metallbapi.ConfigurationStateStatus{Result: metallbapi.Valid, Conditions: slices.Clone(conditions)}
	c := metav1.Condition{Type: stateCondition, Status: metav1.ConditionTrue, Reason: stateFine, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if wrong != "" {
		wrong = strings.ToValidUTF8(wrong[:min(len(wrong), stateSummaryMost)], "")
		s.Result, s.ErrorSummary = metallbapi.Invalid, wrong
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, stateWrong, wrong
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}
