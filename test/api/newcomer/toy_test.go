package newcomer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

type toyDialect struct{ types.NamespacedName } // its pool is in a ConfigMap

func (toyDialect) Name() lb.Dialect    { return "toy" }
func (toyDialect) Voice() compat.Voice { return compat.PlainVoice{} }
func (toyDialect) Words() lb.Words     { return lb.Words{AddPool: "a box"} }
func (d toyDialect) Kinds() []compat.Kind {
	return []compat.Kind{{GroupVersionKind: configMaps, Object: &corev1.ConfigMap{}, List: func() runtime.Object { return &corev1.ConfigMapList{} }, Namespace: d.Namespace, Name: d.NamespacedName.Name}}
}
func (d toyDialect) Read(o compat.Objects) compat.Reading {
	var out toyReading
	for _, object := range o.All[configMaps] {
		if span, err := lb.ParseSpan(object.(*corev1.ConfigMap).Data["addresses"]); err == nil {
			out = append(out, lb.Pool{Key: lb.PoolKey{Dialect: "toy", Name: "box"}, Spans: []netipx.IPRange{span}})
		}
	}
	return out
}

type toyReading []lb.Pool

func (r toyReading) Pools() []lb.Pool         { return r }
func (r toyReading) Warnings() []lb.Warning   { return nil }
func (r toyReading) Same(compat.Reading) bool { return true }
func (r toyReading) Amend(q *lb.Request, s *lb.Service, _ compat.Class) {
	if a, err := lb.ParseAddr(s.Annotations["toy.example/address"]); err == nil {
		q.Addresses = append(q.Addresses, a)
	}
}

type toyBackend struct { // a cloud of its own
	mu    sync.Mutex
	has   map[types.UID]lb.Orphan // by Service; ID is what it has
	woken chan types.NamespacedName
}

func (*toyBackend) Forget(types.UID) {}
func (*toyBackend) Needs() lb.Needs  { return lb.Needs{Endpoints: true} }
func (b *toyBackend) Sync(_ context.Context, w lb.Want) (out lb.Outcome, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, want, finalizers := &w.Service, fmt.Sprint(w.Verdict.Addresses, " and ", len(w.Endpoints), " endpoints"), []string{"toy.example/cleanup"}
	switch {
	case w.Gone:
		delete(b.has, s.UID)
		return lb.Outcome{Gone: true, Condition: lb.ConditionGoes, Marks: lb.Marks{Removed: finalizers}}, nil
	case w.DryRun:
		return lb.Outcome{Reason: lb.Reason{Code: "ToyPlanned", Text: "It would have " + want + "."}}, nil
	case !slices.Contains(s.Finalizers, finalizers[0]):
		return lb.Outcome{Keep: true, Marks: lb.Marks{Finalizers: finalizers}}, nil
	}
	b.has[s.UID] = lb.Orphan{ID: want, Service: s.Key, UID: s.UID, Reason: lb.Reason{Code: "ToyOrphaned", Text: "Nobody plays with it."}}
	out.Reason, out.Condition, out.Ingress = w.Verdict.Reason, lb.ConditionSays, []lb.Ingress{}
	for _, a := range w.Verdict.Addresses {
		out.Ingress = append(out.Ingress, lb.Ingress{IP: a.String(), Mode: lb.IPModeProxy})
	}
	return out, nil
}
func (b *toyBackend) Run(ctx context.Context, wake func(...types.NamespacedName)) error {
	context.AfterFunc(ctx, func() { close(b.woken) })
	for name := range b.woken {
		wake(name)
	}
	return nil
}
func (b *toyBackend) Orphans(_ context.Context, exists lb.Exists) (out []lb.Orphan, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.has {
		if !o.Lives(exists) {
			out = append(out, o)
		}
	}
	return out, nil
}
func (b *toyBackend) Remove(_ context.Context, all []lb.Orphan) (lb.Plan, error) {
	for _, o := range all {
		b.lose(o.UID)
	}
	return lb.Plan{}, nil
}
