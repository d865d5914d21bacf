// Package configstate writes MetalLB's ConfigurationState objects: whether the
// objects of MetalLB's CRDs can be used, as one component sees it. The controller has
// one such object, and so has each agent.
package configstate

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
)

// Reasons of conditions, as MetalLB has them.
const (
	reasonValid   = "Reconciled"
	reasonInvalid = "ConfigurationError"
)

// fieldOwner is the field manager of our writes.
const fieldOwner = client.FieldOwner("fairlead")

// Writer keeps one object. It is written only if it says something else, or is gone.
// It is for one goroutine at a time.
type Writer struct {
	Key       types.NamespacedName
	Labels    map[string]string
	Condition string // its type
	// Reader reads the object, and may be a cache; Client writes it.
	Reader client.Reader
	Client client.Client
	// MayCreate says whether an object that is missing is created; nil is always.
	MayCreate func(context.Context) bool
	// Exclusive replaces an object that has another owner than this one. It is that of
	// another pod, and would be deleted with it.
	Exclusive bool

	// ignored is a status that the API server has not kept as it was written.
	ignored *metallb.ConfigurationStateStatus
}

// Write makes the object report what is wrong, if anything. A new object gets the
// owner, which may be nil.
func (w *Writer) Write(ctx context.Context, owner *metav1.OwnerReference, wrong string) error {
	var have metallb.ConfigurationState
	err := w.Reader.Get(ctx, w.Key, &have)
	if err == nil && w.Exclusive && !ownedBy(&have, owner) {
		if err := w.Delete(ctx); err != nil {
			return err
		}
		have, err = metallb.ConfigurationState{}, apierrors.NewNotFound(metallb.GroupVersion.WithResource("configurationstates").GroupResource(), w.Key.Name)
	}
	if apierrors.IsNotFound(err) {
		if w.MayCreate != nil && !w.MayCreate(ctx) {
			return nil
		}
		err = w.create(ctx, owner)
	}
	if err != nil {
		return err
	}
	return w.patch(ctx, have.Status, statusOf(w.Condition, wrong, have.Status.Conditions, time.Now()))
}

func ownedBy(o *metallb.ConfigurationState, owner *metav1.OwnerReference) bool {
	return owner != nil && len(o.OwnerReferences) == 1 && o.OwnerReferences[0].UID == owner.UID
}

// Delete removes the object.
func (w *Writer) Delete(ctx context.Context) error {
	return client.IgnoreNotFound(w.Client.Delete(ctx, w.object()))
}

func (w *Writer) object() *metallb.ConfigurationState {
	return &metallb.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Namespace: w.Key.Namespace, Name: w.Key.Name}}
}

func (w *Writer) create(ctx context.Context, owner *metav1.OwnerReference) error {
	o := w.object()
	o.Labels = w.Labels
	if owner != nil {
		o.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	err := w.Client.Create(ctx, o, fieldOwner)
	if apierrors.IsAlreadyExists(err) && !w.Exclusive {
		return nil // the cache is behind
	}
	return err
}

func (w *Writer) patch(ctx context.Context, have, want metallb.ConfigurationStateStatus) error {
	if equality.Semantic.DeepEqual(have, want) || w.ignored != nil && equality.Semantic.DeepEqual(*w.ignored, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"result": want.Result, "errorSummary": want.ErrorSummary, "conditions": want.Conditions,
	}})
	if err != nil {
		return err
	}
	answer := w.object()
	if err := w.Client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return client.IgnoreNotFound(err)
	}
	if w.ignored = nil; !equality.Semantic.DeepEqual(answer.Status, want) {
		w.ignored = &want
	}
	return nil
}

// statusOf is the status that reports what is wrong, of an object that has conditions
// now.
func statusOf(condition, wrong string, conditions []metav1.Condition, now time.Time) metallb.ConfigurationStateStatus {
	s := metallb.ConfigurationStateStatus{Result: metallb.Valid, ErrorSummary: wrong, Conditions: slices.Clone(conditions)}
	c := metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reasonValid, Message: wrong, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if wrong != "" {
		s.Result, c.Status, c.Reason = metallb.Invalid, metav1.ConditionFalse, reasonInvalid
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}
