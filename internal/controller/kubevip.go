package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backend "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// kubevipMap is the ConfigMap of kube-vip's cloud provider, as it was read last.
type kubevipMap struct {
	key    types.NamespacedName
	events *events
	first  bool // a class reads Services in kube-vip's words before all others
	// changed is told when it says something else about Services than before.
	changed func()

	mu     sync.Mutex
	config *kubevip.Config
	told   map[lb.Reason]bool
}

func newKubevipMap(o Options) *kubevipMap {
	if !o.Config.Uses(lb.KubeVIP) {
		return nil
	}
	if o.KubeVIPMap == (config.KubeVIPMap{}) {
		o.KubeVIPMap = config.KubeVIPMapFrom(func(string) string { return "" })
	}
	first := slices.ContainsFunc(o.Config.Classes, func(c config.Class) bool { return c.Pools[0] == lb.KubeVIP })
	return &kubevipMap{key: types.NamespacedName(o.KubeVIPMap), first: first, config: kubevip.Parse(nil), told: map[lb.Reason]bool{}}
}

// current returns what the ConfigMap says; nil if no class asks.
func (m *kubevipMap) current() *kubevip.Config {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// spoken says whether any Service is read in kube-vip's words.
func (m *kubevipMap) spoken() bool { return m.first || m.current().Present }

// read reads it from the cache, and tells what is new: what is wrong with it, and
// that Services are to be read again.
func (m *kubevipMap) read(ctx context.Context, cache client.Reader) ([]lb.Pool, error) {
	if m == nil {
		return nil, nil
	}
	var cm corev1.ConfigMap
	parsed := kubevip.Parse(nil)
	switch err := cache.Get(ctx, m.key, &cm); {
	case err == nil:
		parsed = kubevip.Parse(&cm)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read ConfigMap %s: %w", m.key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: m.key.Namespace, Name: m.key.Name, UID: cm.UID}
	wrong := map[lb.Reason]bool{}
	for _, p := range parsed.Problems {
		if wrong[p.Reason] = true; !m.told[p.Reason] && m.events != nil {
			m.events.add(about, lb.KubeVIP, p.Reason)
		}
	}
	m.told = wrong
	same := parsed.SameForServices(m.config)
	m.config = parsed
	if !same && m.changed != nil {
		m.changed()
	}
	return parsed.Pools, nil
}

// servicesOfKubeVIP returns all Services that are read in kube-vip's words.
func servicesOfKubeVIP(ctx context.Context, cache client.Reader, cfg *config.Configuration) (out []types.NamespacedName) {
	var list corev1.ServiceList
	if err := cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not filled yet; then every Service is still to come
	}
	for i := range list.Items {
		if class := servedBy(cfg, &list.Items[i]); class != nil && slices.Contains(class.Pools, lb.KubeVIP) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out
}

// publishedOf returns the addresses that s is known to hold: those in its status
// or, where that is for kube-vip to write, those that are written on it. There,
// what somebody asks for is no proof that he got it, unless kube-vip's cloud
// provider has been there, or kube-vip publishes it.
func publishedOf(s *corev1.Service, class *config.Class) []netip.Addr {
	if class.Backend != config.KubeVIP {
		return native.Published(s)
	}
	held := kubevip.Held(s)
	if wish, _ := kubevip.Wish(s); wish == "" || s.Labels[kubevip.Label] == kubevip.LabelValue {
		return held
	}
	published := native.Published(s)
	return slices.DeleteFunc(held, func(a netip.Addr) bool { return !slices.Contains(published, a) })
}

// attests says whether what s is known to hold was written by a Fairlead
// controller.
func attests(s *corev1.Service, class *config.Class) bool {
	if class.Backend != config.KubeVIP {
		return attested(s)
	}
	given, ok := s.Annotations[kubevip.AnnotationGiven]
	return ok && given == s.Annotations[kubevip.AnnotationAddresses]
}

// provides says whether any class leaves announcing to kube-vip.
func (c *services) provides() bool {
	return slices.ContainsFunc(c.config.Classes, func(class config.Class) bool { return class.Backend == config.KubeVIP })
}

// provide makes s, of a class of backend kube-vip, say v, the answer to r, in one
// write; or says in a condition why it has nothing, and leaves the rest alone.
func (c *services) provide(ctx context.Context, s *corev1.Service, m *memo, r *lb.Request, v lb.Verdict) (reconcile.Result, error) {
	served := backend.Serves(v)
	var patch []byte
	if served {
		if v.Reason.Code == lb.WaitingForLease {
			v.Reason = lb.LeftToLease.With()
		}
		patch = backend.Patch(s, r.Families, v, c.kubevip.current().Interface(s.Namespace))
	}
	var status []byte
	switch {
	case !served && !saysReason(s, v.Reason):
		status = marshalPatch(s, map[string]any{}, map[string]any{"conditions": []metav1.Condition{condition(s, v.Reason, time.Now())}})
	case served && patch == nil:
		status = conditionGone(s)
	}
	again := reconcile.Result{}
	if patch != nil {
		written, err := c.patch(ctx, s, patch)
		switch {
		case err != nil:
			return again, err
		case written == nil:
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		m.written, m.published = written.ResourceVersion, v.Addresses
		c.waited.Observe(m.age(s, time.Now()).Seconds())
		c.log.Info("service written", "service", s.Namespace+"/"+s.Name, "addresses", backend.Text(r.Families, v), "reason", v.Reason.Code)
	}
	if status != nil {
		written, err := c.write(ctx, s, status)
		switch {
		case err != nil:
			return again, err
		case written == nil:
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		m.written = written.ResourceVersion
	}
	if patch != nil || !served || m.told != (lb.Reason{}) {
		c.tell(s, m, r, v)
	}
	return again, nil
}

// conditionGone returns the patch that takes our condition off s, if it is there.
func conditionGone(s *corev1.Service) []byte {
	if readyCondition(s) == nil {
		return nil
	}
	return marshalPatch(s, map[string]any{}, map[string]any{"conditions": []any{map[string]any{"$patch": "delete", "type": ConditionReady}}})
}

// patch sends a patch of the Service itself; see write.
func (c *services) patch(ctx context.Context, s *corev1.Service, patch []byte) (*corev1.Service, error) {
	written, err := c.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: component})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return written, nil
}

// letGo lets a Service go that is being deleted: one of backend kube-vip, or one
// that kube-vip's cloud provider has left to us. Until it is gone it holds its
// addresses. The finalizer can be taken off with the right to write the status.
func (c *services) letGo(ctx context.Context, s *corev1.Service) (reconcile.Result, error) {
	patch := backend.LetGo(s)
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
	if held := kubevip.Held(s); len(held) > 0 {
		c.events.add(serviceReference(s), lb.KubeVIP, lb.AddressReleased.With(lb.ListAddrs(held), "it is deleted"))
	}
	return reconcile.Result{}, nil
}
