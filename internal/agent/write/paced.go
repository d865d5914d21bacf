package write

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// leastPause is the least time between two passes of one writer.
	leastPause = time.Second
	// maxPause is the longest between two that fail.
	maxPause = 4 * time.Second
)

// Wake has whoever waits on c look again.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Paced calls pass whenever something has arrived, but not too often, until ctx
// ends. What fails is tried again, and logged once until it succeeds.
func Paced(ctx context.Context, log *slog.Logger, what string, arrived chan struct{}, pass func(context.Context) (more bool, err error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := leastPause
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
			pause = leastPause
		case ctx.Err() != nil:
			return
		default:
			if pause == leastPause {
				log.Warn(what+" not written; trying again", "error", err)
			}
			pause = min(2*pause, maxPause)
		}
		if more || err != nil {
			Wake(arrived)
		}
		timer.Reset(pause)
	}
}

// PatchStatus writes fields of an object's status; nil removes one.
func PatchStatus(ctx context.Context, c client.Client, o client.Object, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
}

// Refused says whether an object will not be written, however often it is tried.
func Refused(err error) bool {
	for _, is := range []func(error) bool{apierrors.IsNotFound, apierrors.IsForbidden, apierrors.IsAlreadyExists, apierrors.IsInvalid, apierrors.IsBadRequest, apierrors.IsRequestEntityTooLargeError} {
		if is(err) {
			return true
		}
	}
	return false
}
