package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/kubeapi"
)

// rewindPoll is how often it is looked whether all has been read again.
const rewindPoll = 100 * time.Millisecond

// rewinds begins again when etcd was restored from a backup: what was assigned and
// written since the backup never was. Until all is read again, nothing is assigned.
// It runs in the leader; the next one begins from what there is anyway.
type rewinds struct {
	*common
	seen     <-chan struct{} // receives a value when caches notice
	services []*services
	imports  *importer
	// informers of all kinds that are read.
	informers func(context.Context) ([]cache.Informer, error)
	wake      func([]types.NamespacedName)
}

// Start looks out until ctx ends.
func (r *rewinds) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.seen:
		}
		if r.classes.anyFromPools() && !r.ledger.isImported() {
			continue // the import reads what there is
		}
		r.log.Warn("etcd was restored from a backup; assigning nothing until everything is read again")
		r.suspended.Store(true)
		for {
			err := r.begin(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			r.log.Warn("cannot read everything again; trying again", "error", err)
			if !pauseFor(ctx, importRetry) {
				break
			}
		}
		r.suspended.Store(false)
		r.wake(r.everything(ctx))
		r.log.Info("everything is read again after the restore of etcd")
	}
}

// begin waits until nobody decides on what is lost, and forgets all that is known.
func (r *rewinds) begin(ctx context.Context) error {
	for !r.idle() {
		if !pauseFor(ctx, rewindPoll) {
			return ctx.Err()
		}
	}
	for {
		ahead, err := r.ahead(ctx)
		if err != nil {
			return err
		}
		if !ahead {
			break
		}
		if !pauseFor(ctx, rewindPoll) {
			return ctx.Err()
		}
	}
	for _, svc := range r.services {
		for _, uid := range svc.memos.forgetAll() {
			svc.backend.Forget(uid)
		}
	}
	if !r.classes.anyFromPools() {
		return nil
	}
	_, err := r.imports.importAll(ctx)
	return err
}

func (r *rewinds) idle() bool {
	for _, svc := range r.services {
		if svc.running.Load() > 0 {
			return false
		}
	}
	return true
}

// ahead says whether some cache is still of a time that the API server has not reached.
// The caches are looked at first: they go on while the API server answers, and in a busy
// cluster would always be ahead of what it said.
func (r *rewinds) ahead(ctx context.Context) (bool, error) {
	informers, err := r.informers(ctx)
	if err != nil {
		return false, err
	}
	var read []string
	for _, i := range informers {
		if of, ok := i.(interface{ LastSyncResourceVersion() string }); ok {
			read = append(read, of.LastSyncResourceVersion())
		}
	}
	list, err := r.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list services: %w", err)
	}
	return slices.ContainsFunc(read, func(version string) bool {
		order, err := resourceversion.CompareResourceVersion(version, list.ResourceVersion)
		return err == nil && order > 0
	}), nil
}

// everything is all Services that may be ours, or have something of ours.
func (r *rewinds) everything(ctx context.Context) (out []types.NamespacedName) {
	var list corev1.ServiceList
	if err := r.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // never, the cache is filled
	}
	for i := range list.Items {
		if s := kubeapi.Service(&list.Items[i]); s.LoadBalancer || len(s.Finalizers) > 0 || r.classes.markedByAny(s) {
			out = append(out, s.Key)
		}
	}
	return out
}

// pauseFor says whether ctx has not ended after d.
func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
