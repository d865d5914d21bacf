package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backend "fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// kubevipMap is the ConfigMap of kube-vip's cloud provider, as it was read last.
type kubevipMap struct {
	key    types.NamespacedName
	kinds  *optional
	events *events
	// changed is told when it says something else about Services than before.
	changed func()

	mu     sync.Mutex
	config *kubevip.Config
	unread string    // why it cannot be read, if it cannot
	uid    types.UID // "" if it is not there
	told   map[lb.Reason]bool
	// clashes are the pools that were told to be refused because others have their
	// addresses.
	clashes map[lb.Reason]bool
}

func newKubevipMap(o Options) *kubevipMap {
	if !o.Config.Uses(lb.KubeVIP) {
		return nil
	}
	if o.KubeVIPMap == (config.KubeVIPMap{}) {
		o.KubeVIPMap = config.KubeVIPMapFrom(func(string) string { return "" })
	}
	return &kubevipMap{key: types.NamespacedName(o.KubeVIPMap), config: kubevip.Parse(nil)}
}

// current returns what the ConfigMap says; nil if no class asks.
func (m *kubevipMap) current() *kubevip.Config {
	config, _ := m.state()
	return config
}

// state returns what the ConfigMap says, and why it cannot be read, if it cannot.
func (m *kubevipMap) state() (config *kubevip.Config, unread string) {
	if m == nil {
		return nil, ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config, m.unread
}

// requestOf returns what s, of a class, asks for. Where the ConfigMap cannot be
// read, nothing can be said of Services that have addresses of it: asIs, they go on
// as they are. Who asks in kube-vip's words, or is to have addresses of it before
// others, waits for it.
func (m *kubevipMap) requestOf(s *corev1.Service, class *config.Class, labels map[string]string) (r lb.Request, asIs bool) {
	r, asIs = m.asked(s, class, labels)
	r.Evidence = evidenceOf(s, class)
	return r, asIs
}

func (m *kubevipMap) asked(s *corev1.Service, class *config.Class, labels map[string]string) (r lb.Request, asIs bool) {
	theirs, unread := m.state()
	if unread == "" || !slices.Contains(class.Pools, lb.KubeVIP) {
		r = contextOf(class, labels, theirs).Request(s)
		if inherits(s, class) && len(r.Addresses) == 0 {
			r.Addresses, r.Anywhere = kubevip.Held(s), theirs.Anywhere(class.Pools[0])
		}
		return r, false
	}
	has := len(publishedOf(s, class)) > 0 || s.Annotations[kubevip.AnnotationGiven] != ""
	if has && ofKubeVIP(s) {
		return unchanged(s, class, theirs), true
	}
	r = contextOf(class, labels, theirs).Request(s)
	if !has && (ofKubeVIP(s) || class.Pools[0] == lb.KubeVIP) {
		reason := lb.PoolsUnreadable.With("ConfigMap "+m.key.String()+", which has the pools", unread, "Allow it to get, list and watch that")
		r.Invalid = &reason
	}
	return r, false
}

// ofKubeVIP says whether s is kube-vip's by what is written on it.
func ofKubeVIP(s *corev1.Service) bool {
	for key := range s.Annotations {
		if strings.HasPrefix(key, "kube-vip.io/") && key != kubevip.AnnotationHost {
			return true
		}
	}
	return s.Labels[kubevip.Label] == kubevip.LabelValue || strings.Contains(s.Annotations[native.AnnotationAllocatedFrom], string(lb.KubeVIP)+"/")
}

// read reads it from the cache, and tells what is new: what is wrong with it, and
// that Services are to be read again. The ledger, which is locked meanwhile, gets
// the pools, so that nobody sees one without the other.
func (m *kubevipMap) read(ctx context.Context, cache client.Reader) ([]lb.Pool, error) {
	if m == nil {
		return nil, nil
	}
	var cm corev1.ConfigMap
	parsed := kubevip.Parse(nil)
	unread, lacking := m.kinds.lacks(kindConfigMap)
	if !lacking {
		switch err := cache.Get(ctx, m.key, &cm); {
		case err == nil:
			parsed = kubevip.Parse(&cm)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read ConfigMap %s: %w", m.key, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if cm.UID != m.uid {
		m.uid, m.told, m.clashes = cm.UID, nil, nil
	}
	wrong := make([]lb.Reason, len(parsed.Problems))
	for i, p := range parsed.Problems {
		wrong[i] = p.Reason
	}
	m.told = m.tell(wrong, m.told)
	same := parsed.SameForServices(m.config) && unread == m.unread
	m.config, m.unread = parsed, unread
	if !same && m.changed != nil {
		m.changed()
	}
	return parsed.Pools, nil
}

// tellClashes tells which pools of it are refused because pools of other kinds have
// their addresses: that is seen only where all pools are together.
func (m *kubevipMap) tellClashes(usage []ipam.PoolUsage) {
	if m == nil {
		return
	}
	var wrong []lb.Reason
	for _, u := range usage {
		if u.Key.Dialect == lb.KubeVIP && u.Reason.Code == lb.PoolOverlap {
			wrong = append(wrong, u.Reason)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clashes = m.tell(wrong, m.clashes)
}

// tell tells on the ConfigMap what is wrong now, but for what was told before, and
// returns what was told by now.
func (m *kubevipMap) tell(wrong []lb.Reason, before map[lb.Reason]bool) map[lb.Reason]bool {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: m.key.Namespace, Name: m.key.Name, UID: m.uid}
	told := map[lb.Reason]bool{}
	for _, r := range wrong {
		if told[r] = true; !before[r] && m.events != nil && m.uid != "" {
			m.events.addOnce(about, lb.KubeVIP, r)
		}
	}
	return told
}

// servicesUsing returns all Services whose class may use pools of a dialect.
func servicesUsing(ctx context.Context, cache client.Reader, cfg *config.Configuration, d lb.Dialect) (out []types.NamespacedName) {
	var list corev1.ServiceList
	if err := cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not filled yet; then every Service is still to come
	}
	for i := range list.Items {
		if class := servedBy(cfg, &list.Items[i]); class != nil && slices.Contains(class.Pools, d) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out
}

// publishedOf returns the addresses that s is known to hold: those in its status
// or, where that is for kube-vip to write, those that are written on it, unless we
// have refused what is asked for there.
//
// A class may have had another backend before, in whose place the addresses are.
func publishedOf(s *corev1.Service, class *config.Class) []netip.Addr {
	published, held := native.Published(s), kubevip.Held(s)
	wish, _ := kubevip.Wish(s)
	said, known := reasonOn(s)
	switch announced := readyCondition(s) != nil; {
	case class.Backend != config.KubeVIP:
		return published
	case announced && len(published) > 0 && attested(s):
		return published
	case wish == "" && len(held) == 0 && kubevip.Given(s) == "":
		return published
	case wish != "" && !kubevip.Noted(s) && known && !said.Ready():
		return nil
	}
	return held
}

// evidenceOf ranks what publishedOf returns. Our condition names the addresses that
// were written with it, and tenants cannot write a status. Where kube-vip announces,
// the status is no evidence: kube-vip copies annotations into it.
func evidenceOf(s *corev1.Service, class *config.Class) lb.Evidence {
	switch announced := readyCondition(s) != nil && len(native.Published(s)) > 0 && attested(s); {
	case announced:
		return lb.Proven
	case class.Backend == config.KubeVIP:
		return lb.Asserted
	}
	return lb.Reported
}

// inherits says whether s, which Fairlead announces, was given an address for
// kube-vip to announce, which has not done so: it is to have that now, as far as
// anybody may who asks for it. Everybody can write that on a Service.
func inherits(s *corev1.Service, class *config.Class) bool {
	wish, _ := kubevip.Wish(s)
	return class.Backend == config.Announce && slices.Contains(class.Pools, lb.KubeVIP) && kubevip.Given(s) != "" &&
		wish == "" && readyCondition(s) == nil && len(native.Published(s)) == 0
}

// attests says whether what s is known to hold was written by a Fairlead
// controller.
func attests(s *corev1.Service, class *config.Class) bool {
	if class.Backend != config.KubeVIP {
		return attested(s)
	}
	return kubevip.Attested(s)
}

// readsMarks says whether Services may have what is written for kube-vip.
func (c *services) readsMarks() bool { return c.kubevip != nil || c.provides() }

// provides says whether any class leaves announcing to kube-vip.
func (c *services) provides() bool {
	return slices.ContainsFunc(c.config.Classes, func(class config.Class) bool { return class.Backend == config.KubeVIP })
}

// provide makes s, of a class of backend kube-vip, say v, the answer to r: what it
// has and what is wrong in one write. What is wrong is told in an annotation: a
// condition is in the status, and would need a second write to go. See
// ARCHITECTURE.md.
//
// Where somebody else keeps undoing that, as who applies all of a manifest again and
// again may do, the Service is left alone for longer and longer.
func (c *services) provide(ctx context.Context, s *corev1.Service, m *memo, r *lb.Request, v lb.Verdict) (reconcile.Result, error) {
	var patch []byte
	if backend.Serves(v) {
		if v.Reason.Code == lb.WaitingForLease {
			v.Reason = kubevip.Reasons.With(kubevip.LeftToLease)
		}
		patch = backend.Patch(s, r.Families, v, c.kubevip.current().Interface(s.Namespace))
	} else {
		patch = backend.Wait(s, v)
	}
	send := c.patch
	if patch == nil { // of the days when Fairlead announced it
		patch, send = conditionGone(s), c.write
	} else {
		m.untold = true
	}
	said, now := v.Reason.String()+backend.Text(r.Families, v), time.Now()
	if patch != nil && m.written != "" && m.said == said {
		m.foreign.note(s.ResourceVersion, now)
		if m.foreign.persistent(now) {
			if pause := m.foreign.wait(now, foreignMost); pause > 0 {
				v.Reason = lb.ForeignWriter.With("annotations, labels or spec.loadBalancerIP, which kube-vip reads")
				c.tell(s, m, r, v)
				return reconcile.Result{RequeueAfter: pause}, nil
			}
		}
	}
	if patch != nil {
		written, err := send(ctx, s, patch)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case written == nil:
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		if len(kubevip.Held(s)) == 0 && len(v.Addresses) > 0 {
			c.waited.Observe(m.age(s, now).Seconds())
		}
		m.said = said
		m.written, m.published = written.ResourceVersion, v.Addresses
		c.log.Info("service written", "service", s.Namespace+"/"+s.Name, "addresses", backend.Text(r.Families, v), "reason", v.Reason.Code)
	}
	if !m.untold && m.told == (lb.Reason{}) {
		m.told = v.Reason // it was found as it should be: that was told long ago
	}
	m.untold = false
	if m.told.Code == lb.ForeignWriter && m.foreign.persistent(now) { // who may be back at once
		return reconcile.Result{RequeueAfter: foreignQuiet}, nil
	}
	c.tell(s, m, r, v)
	return reconcile.Result{}, nil
}

// conditionGone returns the patch that takes our condition off s, if it is there.
func conditionGone(s *corev1.Service) []byte {
	if readyCondition(s) == nil {
		return nil
	}
	return marshalPatch(s, map[string]any{}, map[string]any{"conditions": []any{map[string]any{"$patch": "delete", "type": ConditionReady}}})
}

// patch sends a patch of the Service itself; see send.
func (c *services) patch(ctx context.Context, s *corev1.Service, patch []byte) (*corev1.Service, error) {
	return c.send(ctx, s, patch)
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
