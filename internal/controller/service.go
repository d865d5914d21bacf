package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backend "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// conflictRetry is when a Service is looked at again after somebody else wrote
// it at the same moment; usually the watch is faster.
const conflictRetry = 100 * time.Millisecond

// services makes each Service say what the ledger decided for it.
type services struct {
	cache  client.Reader
	client kubernetes.Interface
	config *config.Configuration
	kinds  *optional
	// kubevip is nil if no class uses pools of kube-vip's ConfigMap.
	kubevip *kubevipMap
	agents  *agents // as kubevip
	ledger  *ledger
	events  *events
	memos   memos
	log     *slog.Logger

	// waited observes how long a Service waited for its first address.
	waited prometheus.Histogram
	// running counts reconciles under way.
	running atomic.Int32
}

// Reconcile reads one Service, settles what it has, and writes that down if the
// Service does not say so yet.
func (c *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c.running.Add(1)
	defer c.running.Add(-1)
	var s corev1.Service
	if err := c.cache.Get(ctx, req.NamespacedName, &s); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("read service %s: %w", req.NamespacedName, err)
		}
		c.ledger.forget(req.NamespacedName)
		c.memos.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	class := servedBy(c.config, &s)
	left := leftBy(c.config, &s)
	switch {
	case class == nil && left != nil:
		c.memos.forget(req.NamespacedName)
		c.ledger.settle(unchanged(&s, left, c.kubevip.current()), publishedOf(&s, left))
		if s.DeletionTimestamp != nil && c.readsMarks() && backend.Kept(&s) {
			return c.letGo(ctx, &s)
		}
		return reconcile.Result{}, nil
	case class == nil:
		return c.release(ctx, &s)
	case s.DeletionTimestamp != nil:
		c.ledger.settle(unchanged(&s, class, c.kubevip.current()), publishedOf(&s, class))
		if class.Backend == config.KubeVIP || c.kubevip != nil && backend.Kept(&s) {
			return c.letGo(ctx, &s)
		}
		return reconcile.Result{}, nil
	}
	labels, known := c.namespaceLabels(ctx, s.Namespace)
	if !known {
		return reconcile.Result{}, nil // its arrival reconciles its Services
	}
	m := c.memos.of(&s, time.Now())
	if m.stale(&s) {
		return reconcile.Result{}, nil
	}
	published := publishedOf(&s, class)
	if m.settled && !attests(&s, class) {
		published = nil // an edit by hand; what we know is better
	}
	m.settled = true
	r, asIs := c.kubevip.requestOf(&s, class, labels)
	r.Leased = c.agents.leased(&s)
	v := c.ledger.settle(r, published)
	switch {
	case asIs:
		return reconcile.Result{}, nil
	case class.Backend == config.KubeVIP:
		return c.provide(ctx, &s, m, &r, v)
	}
	return c.publish(ctx, &s, m, &r, withWish(c.withoutNative(v, class), &s))
}

// withoutNative adds to a verdict that there is no pool why that may be so: our own
// kind is not there either.
func (c *services) withoutNative(v lb.Verdict, class *config.Class) lb.Verdict {
	why, lacking := c.kinds.lacks(kindNativePool)
	if lacking && v.Reason.Code == lb.NoPool && slices.Contains(class.Pools, lb.Native) {
		v.Reason = v.Reason.And(lb.PoolsUnreadable.With("kind Pool", why, "Install Fairlead's CRDs (chart value crds.enabled), and allow it to get, list and watch that"))
	}
	return v
}

// leftBy returns the class that gave s its addresses, if none serves it now: the
// configuration has changed. Nobody else gets them while s is there, and s is left
// alone. Everybody can set a label, so it counts only where addresses are given for
// kube-vip to announce, and only for addresses that nobody has.
func leftBy(cfg *config.Configuration, s *corev1.Service) *config.Class {
	switch {
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer || cfg.Class(ptr.Deref(s.Spec.LoadBalancerClass, "")) != nil:
		return nil
	case readyCondition(s) != nil && attested(s):
		return &config.Class{Backend: config.Announce, Pools: []lb.Dialect{lb.Native, lb.MetalLB, lb.KubeVIP}}
	case s.Labels[kubevip.Label] == kubevip.LabelValue && slices.Contains(cfg.Backends(), config.KubeVIP):
		return &config.Class{Backend: config.KubeVIP, Pools: []lb.Dialect{lb.KubeVIP}}
	}
	return nil
}

// servedBy returns the class that gives s addresses from pools, or nil if s is not
// ours.
func servedBy(cfg *config.Configuration, s *corev1.Service) *config.Class {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	class := cfg.Class(ptr.Deref(s.Spec.LoadBalancerClass, ""))
	if class == nil || !class.Backend.FromPools() || ignores(class, s) {
		return nil
	}
	return class
}

// ignores says whether s would be ours as one of class, but for its annotation.
func ignores(class *config.Class, s *corev1.Service) bool {
	return class != nil && class.Backend == config.Announce && slices.Contains(class.Pools, lb.KubeVIP) && kubevip.Ignored(s)
}

// publish makes s say v, the answer to r: its addresses, their pools and the
// reason, in one write; then tells the reason in an event if it is a new one.
func (c *services) publish(ctx context.Context, s *corev1.Service, m *memo, r *lb.Request, v lb.Verdict) (reconcile.Result, error) {
	now := time.Now()
	wait, again := c.minded(s, m, &v, now)
	if wait {
		c.tell(s, m, r, v)
		return again, nil
	}
	if patch := statusPatch(s, v, c.hostOf(s, v), now); patch != nil {
		hadAddress := len(s.Status.LoadBalancer.Ingress) > 0
		written, err := c.write(ctx, s, patch)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case written == nil:
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		c.tellReleased(s, m, r, v)
		m.written, m.published = written.ResourceVersion, v.Addresses
		if len(v.Addresses) > 0 && !hadAddress {
			c.waited.Observe(m.age(s, now).Seconds())
		}
		c.log.Info("service written", "service", s.Namespace+"/"+s.Name, "addresses", addressList(v.Addresses), "reason", v.Reason.Code)
	}
	c.tell(s, m, r, v)
	return again, nil
}

// minded notices when somebody else has overwritten the status that we wrote.
// If that goes on, v gets the reason ForeignWriter, and the status is left alone
// for some time (wait); the result says when to look again.
func (c *services) minded(s *corev1.Service, m *memo, v *lb.Verdict, now time.Time) (wait bool, again reconcile.Result) {
	overwritten := m.written != "" && slices.Equal(m.published, v.Addresses) && !publishes(s, *v)
	if overwritten {
		m.foreign.note(s.ResourceVersion, now)
	}
	if !m.foreign.persistent(now) {
		return false, reconcile.Result{}
	}
	if overwritten {
		v.Reason = lb.ForeignWriter.With(fmt.Sprintf("status (%s instead of %s)", orNothing(addressList(native.Published(s))), orNothing(addressList(v.Addresses))))
		most := foreignMost
		if c.ledger.ours(native.Published(s)) {
			most = foreignHarmful
		}
		if pause := m.foreign.wait(now, most); pause > 0 {
			return true, reconcile.Result{RequeueAfter: pause}
		}
	} else if m.told.Code == lb.ForeignWriter {
		v.Reason = m.told
	}
	return false, reconcile.Result{RequeueAfter: foreignQuiet}
}

// write sends a patch of the status subresource; see send.
func (c *services) write(ctx context.Context, s *corev1.Service, patch []byte) (*corev1.Service, error) {
	return c.send(ctx, s, patch, "status")
}

// send sends a patch. No error and no Service means that it did not fit the object
// any more; a newer version is on its way.
func (c *services) send(ctx context.Context, s *corev1.Service, patch []byte, subresource ...string) (*corev1.Service, error) {
	written, err := c.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: component}, subresource...)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write %s: %w", strings.Join(append([]string{"service " + s.Namespace + "/" + s.Name}, subresource...), ", "), err)
	}
	return written, nil
}

// release gives back what a Service holds that is no longer ours, and takes our
// words off it. A Service that never was ours is not touched.
func (c *services) release(ctx context.Context, s *corev1.Service) (reconcile.Result, error) {
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	had, known := c.ledger.forget(key)
	c.memos.forget(key)
	if len(had.Addresses) > 0 && s.DeletionTimestamp == nil {
		c.events.add(serviceReference(s), c.voice(&lb.Request{}, had), lb.AddressReleased.With(lb.ListAddrs(had.Addresses), noLongerOurs(s)))
	}
	if c.readsMarks() && s.DeletionTimestamp != nil && s.Spec.Type != corev1.ServiceTypeLoadBalancer && backend.Kept(s) {
		return c.letGo(ctx, s)
	}
	// Where Fairlead announces, marks of Services that never were ours are another's.
	theirs := c.readsMarks() && backend.Marked(s) && (c.provides() || known || s.Annotations[kubevip.AnnotationGiven] != "")
	leaves := readyCondition(s) != nil && ignores(c.config.Class(ptr.Deref(s.Spec.LoadBalancerClass, "")), s)
	if !known && !leaves && s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil && !(c.provides() && theirs) {
		return reconcile.Result{}, nil
	}
	if theirs {
		send := c.patch
		if !c.provides() {
			send = c.write
		}
		if patch := backend.Release(s, c.kubevip.current().Interface(s.Namespace), c.provides()); patch != nil {
			switch written, err := send(ctx, s, patch); {
			case err != nil:
				return reconcile.Result{}, err
			case written == nil:
				return reconcile.Result{RequeueAfter: conflictRetry}, nil
			}
			c.log.Info("service released", "service", key)
			return reconcile.Result{}, nil // what is left in its status is taken off next
		}
	}
	patch := releasePatch(s)
	if patch == nil {
		return reconcile.Result{}, nil
	}
	written, err := c.write(ctx, s, patch)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case written == nil:
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	c.log.Info("service released", "service", key)
	return reconcile.Result{}, nil
}

// namespaceLabels of a namespace; not known if the cache does not have it yet:
// watches of different kinds are not in step, and without labels a Service would
// get an address from a pool that is not for it.
func (c *services) namespaceLabels(ctx context.Context, name string) (labels map[string]string, known bool) {
	var ns corev1.Namespace
	if err := c.cache.Get(ctx, types.NamespacedName{Name: name}, &ns); err != nil {
		return nil, false
	}
	return ns.Labels, true
}

// tellContest says on both Services that they had one address.
func (c *services) tellContest(ctx context.Context, contest ipam.Contest) {
	for service, reason := range map[types.NamespacedName]lb.Reason{
		contest.Winner: lb.AddressContested.With(contest.Address, contest.Loser),
		contest.Loser:  lb.AddressInUse.With(contest.Address, contest.Winner, compat.Words[lb.Native].Share),
	} {
		var s corev1.Service
		if err := c.cache.Get(ctx, service, &s); err == nil { // else it is gone
			c.events.add(serviceReference(&s), c.voiceOf(&s), reason)
		}
	}
	c.log.Warn("address had two holders", "address", contest.Address, "kept by", contest.Winner, "lost by", contest.Loser)
}

func addressList(addresses []netip.Addr) string {
	out := make([]string, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
