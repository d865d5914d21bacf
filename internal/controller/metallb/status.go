package metallb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// Report says whether everything is now as it should be.
func (m *Reporter) Report(ctx context.Context, usage []ipam.PoolUsage) bool {
	reading := m.reading()
	if reading == nil {
		return true
	}
	objects, found := &reading.Objects, slices.Clone(reading.Problems)
	used := make(map[string]ipam.PoolUsage, len(objects.Pools))
	for _, u := range usage {
		if u.Key.Dialect == metallb.Name {
			used[u.Key.Name] = u
			if u.Reason.Code == lb.PoolOverlap { // which only all pools together tell
				found = append(found, overlap(objects, u))
			}
		}
	}
	routing := m.routing()
	found = addRefused(found, &objects.BGP, routing.Refused)
	reasons := make(map[types.UID]lb.Reason, len(found))
	for _, f := range found {
		reasons[f.UID] = f.Reason
	}
	done := true
	for i := range objects.Pools {
		var p metallbapi.IPAddressPool
		if !m.fresh(ctx, &objects.Pools[i], &p) {
			continue
		}
		u, known := used[p.Name]
		if p.Namespace != objects.Namespace {
			u, known = ipam.PoolUsage{}, true
		}
		reason, rejected := reasons[p.UID]
		if !rejected {
			reason = lb.PoolReady.With()
		}
		done = known && m.write(ctx, metallb.PoolKind, &p, poolNumbers(u), p.Status.Conditions, reason) && done
	}
	for i := range objects.Advertisements {
		var a metallbapi.L2Advertisement
		if m.fresh(ctx, &objects.Advertisements[i], &a) {
			done = m.write(ctx, metallb.AdvertisementKind, &a, nil, a.Status.Conditions, reasons[a.UID]) && done
		}
	}
	done = m.reportBGP(ctx, &objects.BGP, reasons, &routing) && done
	text := summary(found)
	m.stale.Store(text != "")
	return m.state.write(ctx, text) && done
}

// fresh reads o again: its status may have changed since all objects were read. It
// says whether o is still there.
func (m *Reporter) fresh(ctx context.Context, o, into client.Object) bool {
	return m.cache.Get(ctx, client.ObjectKeyFromObject(o), into) == nil && into.GetUID() == o.GetUID()
}

var voice = metallb.Dialect{}.Voice()

// overlap is what is wrong with the pool of u, which another has the addresses of.
func overlap(objects *metallb.Objects, u ipam.PoolUsage) metallb.Problem {
	out := metallb.Problem{Kind: metallb.KindPool, Object: types.NamespacedName{Namespace: objects.Namespace, Name: u.Key.Name}, Reason: u.Reason}
	for i := range objects.Pools {
		if p := &objects.Pools[i]; client.ObjectKeyFromObject(p) == out.Object {
			out.UID = p.UID
		}
	}
	return out
}

// numbers of an IPAddressPool's status, by field.
type numbers map[string]int64

// poolNumbers returns what the status of a pool counts. What is free may be more
// than a number can say; what is a node's is not free, and nothing is in a pool
// that hands out nothing.
func poolNumbers(u ipam.PoolUsage) numbers {
	n := numbers{}
	for _, f := range lb.Families {
		n["assigned"+f.String()] = int64(u.Families[f].Used)
		n["available"+f.String()] = 0
		if u.Reason.Ready() {
			n["available"+f.String()] = max(0, u.Families[f].Free)
		}
	}
	return n
}

func numbersOf(s *metallbapi.IPAddressPoolStatus) numbers {
	return numbers{"assignedIPv4": s.AssignedIPv4, "availableIPv4": s.AvailableIPv4, "assignedIPv6": s.AssignedIPv6, "availableIPv6": s.AvailableIPv6}
}

// write makes the status of o, which has conditions now, say count (if o is a
// pool) and reason. It says whether it does.
func (m *Reporter) write(ctx context.Context, kind schema.GroupVersionKind, o client.Object, count numbers, conditions []metav1.Condition, reason lb.Reason) bool {
	var have numbers
	if p, ok := o.(*metallbapi.IPAddressPool); ok {
		have = numbersOf(&p.Status)
	}
	m.told.Meet(o.GetUID(), conditions)
	want := controller.WithReady(conditions, reason, time.Now())
	miscounts := !m.dropsNumbers[kind.Kind] && !maps.Equal(have, count)
	missays := !m.dropsConditions[kind.Kind] && !equality.Semantic.DeepEqual(conditions, want)
	if miscounts || missays {
		status := map[string]any{"conditions": want}
		for field, n := range count {
			status[field] = n
		}
		if err := m.patch(ctx, kind, o, status, count); err != nil {
			if !apierrors.IsConflict(err) && ctx.Err() == nil {
				m.log.Warn("status not written", "kind", kind.Kind, "object", client.ObjectKeyFromObject(o), "error", err)
			}
			return false
		}
	}
	if m.dropsConditions[kind.Kind] {
		m.told.TellBare(reference(o, kind), voice, reason)
	} else {
		m.told.Tell(reference(o, kind), voice, reason)
	}
	return true
}

// patch writes, and learns from the answer what of it the API server has kept.
func (m *Reporter) patch(ctx context.Context, kind schema.GroupVersionKind, o client.Object, status map[string]any, count numbers) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()},
		"status":   status,
	})
	if err != nil {
		return err
	}
	answer := objectOf(kind) // o is the cache's
	answer.SetNamespace(o.GetNamespace())
	answer.SetName(o.GetName())
	if err := m.client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, data), client.FieldOwner(component)); err != nil {
		return client.IgnoreNotFound(err)
	}
	var kept []metav1.Condition
	switch a := answer.(type) {
	case *metallbapi.IPAddressPool:
		kept = a.Status.Conditions
		m.dropsNumbers[kind.Kind] = !maps.Equal(numbersOf(&a.Status), count)
	case *metallbapi.L2Advertisement:
		kept = a.Status.Conditions
	case *unstructured.Unstructured:
		kept = conditionsOf(a)
	}
	m.dropsConditions[kind.Kind] = meta.FindStatusCondition(kept, controller.ConditionPoolReady) == nil
	return nil
}

func reference(o client.Object, kind schema.GroupVersionKind) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// summary lists what is wrong, the first few of many.
func summary(found []metallb.Problem) string {
	const most = 5
	var out string
	n := 0
	for _, f := range found {
		if !f.Reason.Warning() {
			continue
		}
		if n++; n <= most {
			if out != "" {
				out += " "
			}
			out += fmt.Sprintf("%s %s: %s", f.Kind, f.Object, f.Reason.Text)
		}
	}
	if n > most {
		out += fmt.Sprintf(" And %d more.", n-most)
	}
	return out
}
