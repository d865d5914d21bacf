package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/backend/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// AnnotationDryRun "true" on a Service that has a load balancer in a cloud: what
// would be changed there is told in an event, and nothing is done.
const AnnotationDryRun = "fairlead.io/dry-run"

// Finalizer keeps a Service until its load balancer in the cloud is gone. All
// cloud controller managers use the same.
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// Cloud is a cloud that has load balancers.
type Cloud struct {
	Backend *cloudscale.Backend
	// Resync is how often everything is compared with what is in the cloud.
	Resync time.Duration
	// DryRun: nothing is changed in the cloud for any Service, only told.
	DryRun bool
	// RemoveOrphans: load balancers of Services that no longer exist are not only
	// told of, but deleted.
	RemoveOrphans bool
}

// cloudServices gives each Service of a class with a cloud's backend its load
// balancer, and makes the Service say so. One look never waits for the cloud.
type cloudServices struct {
	Cloud
	cache  client.Reader
	client kubernetes.Interface
	config *config.Configuration
	events *events
	log    *slog.Logger

	mu    sync.Mutex
	memos map[types.NamespacedName]*cloudMemo
	// orphans by UUID: what was found the last time.
	orphans map[string]bool
}

// cloudMemo is what is remembered of a Service to save writes and words.
type cloudMemo struct {
	uid     types.UID
	written string      // resourceVersion of our last write
	reason  lb.Reason   // how the Service stands
	said    lb.Reason   // the last one that was told in an event
	told    []lb.Reason // beside it
	working bool        // the load balancer is busy with what we have begun
}

// Reconcile takes one look at a Service.
func (c *cloudServices) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var s corev1.Service
	if err := c.cache.Get(ctx, req.NamespacedName, &s); err != nil {
		c.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	gone := s.DeletionTimestamp != nil || cloudClass(c.config, &s) == nil
	if gone && !mayHaveLoadBalancer(c.config, &s) {
		c.forget(req.NamespacedName)
		return c.release(ctx, &s)
	}
	m := c.memo(&s)
	if m.stale(&s) {
		return reconcile.Result{}, nil
	}
	want, err := c.want(ctx, &s, gone)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !gone && !want.DryRun && !slices.Contains(s.Finalizers, Finalizer) {
		// Before anything is made in the cloud: a Service that is deleted must wait
		// for what was made for it.
		written, err := c.write(ctx, &s, m, finalizerPatch(&s), "")
		if err != nil || written == nil {
			return reconcile.Result{RequeueAfter: conflictRetry}, err
		}
		want.Service = written
	}
	out, err := c.Backend.Sync(ctx, want)
	again, wrong := c.conclude(ctx, want, m, out)
	switch {
	case wrong != nil:
		return reconcile.Result{}, wrong
	case again.RequeueAfter > 0:
		return again, nil
	case err != nil && out.Again == 0:
		return reconcile.Result{}, fmt.Errorf("load balancer of service %s: %w", req.NamespacedName, err)
	}
	return reconcile.Result{RequeueAfter: out.Again}, nil
}

// want is what Kubernetes says about s.
func (c *cloudServices) want(ctx context.Context, s *corev1.Service, gone bool) (cloudscale.Want, error) {
	w := cloudscale.Want{Service: s, Gone: gone, DryRun: c.DryRun}
	if v, ok := s.Annotations[AnnotationDryRun]; ok {
		yes, err := strconv.ParseBool(v)
		w.DryRun = w.DryRun || yes || err != nil // who cannot be understood wants to be careful
	}
	var nodes corev1.NodeList
	if err := c.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return w, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		w.Nodes = append(w.Nodes, &nodes.Items[i])
	}
	services, err := c.services(ctx)
	w.Services = services
	return w, err
}

// services of type LoadBalancer that are served by the cloud.
func (c *cloudServices) services(ctx context.Context) (out []*corev1.Service, err error) {
	var list corev1.ServiceList
	if err := c.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; cloudClass(c.config, s) != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// conclude makes the Service say what a look has led to, in one write, and tells
// it in events.
func (c *cloudServices) conclude(ctx context.Context, w cloudscale.Want, m *cloudMemo, out cloudscale.Outcome) (reconcile.Result, error) {
	s := w.Service
	var patch []byte
	subresource := "status"
	switch {
	case w.DryRun:
	case out.Gone:
		patch, subresource = cleanPatch(s), ""
	case out.Reason.Code == lb.CloudBusy, out.Reason.EventOnly(): // under way; there is nothing to be said yet
	default:
		patch = cloudPatch(s, out, time.Now())
	}
	if patch != nil {
		written, err := c.write(ctx, s, m, patch, subresource)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case written == nil:
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		c.log.Info("service written", "service", s.Namespace+"/"+s.Name, "reason", out.Reason.Code, "steps", out.Done)
	}
	for _, r := range m.news(out) {
		c.events.add(serviceReference(s), cloudVoice, r)
	}
	c.mu.Lock()
	m.reason = out.Reason
	c.mu.Unlock()
	if out.Gone {
		c.forget(client.ObjectKeyFromObject(s))
	}
	return reconcile.Result{}, nil
}

// news is what of an outcome has not been told yet: the stages of a change, and
// how the Service stands after it. That a load balancer is busy is only worth a
// word if nothing was said about why.
func (m *cloudMemo) news(out cloudscale.Outcome) (tell []lb.Reason) {
	for _, r := range out.Tell {
		if !slices.Contains(m.told, r) {
			tell = append(tell, r)
		}
	}
	m.told = out.Tell
	m.working = out.Done > 0 || m.working && out.Reason.Code == lb.CloudBusy
	if out.Reason.Code == "" || out.Reason.Same(m.said) || out.Reason.Code == lb.CloudBusy && (m.working || m.reason.Same(out.Reason)) {
		return tell
	}
	if out.Reason.Code != lb.CloudBusy { // after which it stands as before
		m.said = out.Reason
	}
	return append(tell, out.Reason)
}

// release takes our condition off a Service that has no load balancer any more.
func (c *cloudServices) release(ctx context.Context, s *corev1.Service) (reconcile.Result, error) {
	if s.DeletionTimestamp != nil || s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return reconcile.Result{}, nil
	}
	patch := releasePatch(s)
	if patch == nil {
		return reconcile.Result{}, nil
	}
	written, err := c.write(ctx, s, &cloudMemo{}, patch, "status")
	if err != nil || written != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: conflictRetry}, nil
}

// write sends a patch of a Service. No error and no Service means that it did not
// fit the object any more; a newer version is on its way.
func (c *cloudServices) write(ctx context.Context, s *corev1.Service, m *cloudMemo, patch []byte, subresource string) (*corev1.Service, error) {
	var subresources []string
	if subresource != "" {
		subresources = append(subresources, subresource)
	}
	written, err := c.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: component}, subresources...)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write service %s/%s: %w", s.Namespace, s.Name, err)
	}
	m.written = written.ResourceVersion
	return written, nil
}

func (c *cloudServices) memo(s *corev1.Service) *cloudMemo {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(s)
	if m := c.memos[key]; m != nil && m.uid == s.UID {
		return m
	}
	m := &cloudMemo{uid: s.UID}
	if have := readyCondition(s); have != nil { // a restart repeats no event
		m.reason = lb.Rebuilt(lb.Code(have.Reason), have.Message, have.Status == metav1.ConditionTrue)
		m.said = m.reason
	}
	if c.memos == nil {
		c.memos = map[types.NamespacedName]*cloudMemo{}
	}
	c.memos[key] = m
	return m
}

func (c *cloudServices) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memos[key]; m != nil {
		c.Backend.Forget(m.uid)
		delete(c.memos, key)
	}
}

// countByReason is how many Services are told what.
func (c *cloudServices) countByReason() map[lb.Code]int {
	out := map[lb.Code]int{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := range maps.Values(c.memos) {
		out[m.reason.Code]++
	}
	out[lb.LoadBalancerOrphaned] += len(c.orphans)
	return out
}

// stale says whether s is older than our own last write.
func (m *cloudMemo) stale(s *corev1.Service) bool {
	if m.written == "" {
		return false
	}
	cmp, err := resourceversion.CompareResourceVersion(s.ResourceVersion, m.written)
	return err == nil && cmp < 0
}

// cloudClass returns the class by which s has a load balancer in a cloud, or nil.
func cloudClass(cfg *config.Configuration, s *corev1.Service) *config.Class {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var name string
	if s.Spec.LoadBalancerClass != nil {
		name = *s.Spec.LoadBalancerClass
	}
	if class := cfg.Class(name); class != nil && class.Backend == config.Cloudscale {
		return class
	}
	return nil
}

// mayHaveLoadBalancer says whether there may be something of s in the cloud: it
// waits for that to go, and says that it is there. Others use the same finalizer
// for their classes. A Service that became another type has no class any more:
// it had none, or it says that it was ours.
func mayHaveLoadBalancer(cfg *config.Configuration, s *corev1.Service) bool {
	if !slices.Contains(s.Finalizers, Finalizer) {
		return false
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return cloudClass(cfg, s) != nil
	}
	_, known := s.Annotations[compat.AnnotationUUID]
	_, ours := s.Annotations[compat.AnnotationConfigVersion]
	class := cfg.Class("")
	return known || ours || class != nil && class.Backend == config.Cloudscale
}
