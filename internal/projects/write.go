package projects

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
)

// Do carries out a plan of package eip, up to the first step that fails.
func (p *Projects) Do(ctx context.Context, plan lb.Plan) error {
	for _, step := range plan.Steps {
		if err := p.do(ctx, step); err != nil {
			return fmt.Errorf("%s %s: %w", step.Verb, step.Key(), err)
		}
		p.o.Log.Info("changed", "step", step.String())
	}
	return nil
}

func (p *Projects) do(ctx context.Context, step lb.Step) error {
	body, ok := step.Body.(eip.Write)
	if !ok {
		return fmt.Errorf("no body that can be written: %T", step.Body)
	}
	o, ok := body.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("no object that can be written: %T", body.Object)
	}
	return p.writing(o, func() (client.Object, error) { return p.write(ctx, step.Verb, body, o) })
}

// write writes one object, and returns it as it is then; nil if that is not known.
func (p *Projects) write(ctx context.Context, verb lb.Verb, body eip.Write, o client.Object) (client.Object, error) {
	switch verb {
	case lb.VerbCreate:
		err := p.client.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			return nil, nil
		}
		return o, err
	case lb.VerbDelete:
		pre := body.Preconditions()
		err := p.client.Delete(ctx, o, client.Preconditions{UID: pre.UID, ResourceVersion: pre.ResourceVersion})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return doomed(o, time.Now()), err
	case lb.VerbUpdate:
		kind := types.MergePatchType
		if body.JSONPatch {
			kind = types.JSONPatchType
		}
		change := client.RawPatch(kind, body.Patch)
		if body.Status {
			return o, p.client.Status().Patch(ctx, o, change)
		}
		return o, p.client.Patch(ctx, o, change)
	case lb.VerbAssign, lb.VerbRefuse: // what clouds do
	}
	return nil, fmt.Errorf("step %q cannot be done", verb)
}

// transient says whether an error goes by itself: somebody else has written, or not
// everything has been read yet.
func transient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, ErrUnread) || errors.Is(err, ErrLacking)
}
