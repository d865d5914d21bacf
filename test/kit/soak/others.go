package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/native"
	"fairlead.io/test/kit/site"
)

// hostileServices is how many a hostile tenant has; visitors, how many come and go.
const (
	hostileServices = 8
	visitors        = 6
	hostilePorts    = 200 // of one of them
)

// other is a Service of another tenant, for the same pool.
func other(name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: othersNamespace, Name: name}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	s.Spec.Ports = []corev1.ServicePort{{Name: "p0", Port: 80}}
	return s
}

// asks is what a hostile Service asks for, each time something else: what somebody has,
// also to share it, what nobody has, and nothing.
func asks(random *rand.Rand, has *service) map[string]any {
	all := map[string]any{native.AnnotationAddresses: nil, native.AnnotationShare: nil, native.AnnotationPool: nil}
	switch random.IntN(6) {
	case 0:
		all[native.AnnotationAddresses] = has.texts()[0] + "," + has.texts()[1]
	case 1:
		all[native.AnnotationAddresses], all[native.AnnotationShare] = has.texts()[0], "ours"
	case 2:
		all[native.AnnotationShare] = fmt.Sprintf("key-%d", random.IntN(2))
	case 3:
		all[native.AnnotationAddresses] = "203.0.113.7"
	case 4:
		all[native.AnnotationPool] = "none"
	}
	return all
}

// hostile makes Services that ask for what they must not get, and changes them all the
// time, until ctx ends.
func (w *world) hostile(t *target) func(context.Context) error {
	return func(ctx context.Context) error {
		random := rand.New(rand.NewPCG(uint64(t.pick), 1))
		for i := range hostileServices {
			s := other(fmt.Sprintf("hostile-%d", i))
			for p := 1; i == 0 && p < hostilePorts; p++ {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: int32(80 + p)})
			}
			if err := w.api.Create(context.WithoutCancel(ctx), s); err != nil {
				return err
			}
		}
		for ctx.Err() == nil {
			s := other(fmt.Sprintf("hostile-%d", random.IntN(hostileServices)))
			change := map[string]any{"metadata": map[string]any{"annotations": asks(random, w.services[random.IntN(len(w.services))])}}
			if random.IntN(8) == 0 {
				change["spec"] = []map[string]any{{"type": "ClusterIP", "allocateLoadBalancerNodePorts": nil}, {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}}[random.IntN(2)]
			}
			patch, err := json.Marshal(change)
			if err != nil {
				return err
			}
			if err := w.api.Patch(context.WithoutCancel(ctx), s, kube.RawPatch(types.MergePatchType, patch)); err != nil {
				return err
			}
			pause(ctx, 20*time.Millisecond)
		}
		return nil
	}
}

// comeAndGo makes and deletes Services until ctx ends.
func (w *world) comeAndGo(t *target) func(context.Context) error {
	return func(ctx context.Context) error {
		random := rand.New(rand.NewPCG(uint64(t.pick), 2))
		there := map[int]bool{}
		for ctx.Err() == nil {
			i := random.IntN(visitors)
			s := other(fmt.Sprintf("visitor-%d", i))
			do := func(ctx context.Context) error { return w.api.Create(ctx, s) }
			if there[i] {
				do = func(ctx context.Context) error { return w.api.Delete(ctx, s) }
			}
			if err := do(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			there[i] = !there[i]
			pause(ctx, time.Duration(random.IntN(80))*time.Millisecond)
		}
		return nil
	}
}

// sweep deletes all Services of the other tenant, and waits until they are gone.
func (w *world) sweep(ctx context.Context) error {
	return site.Await(ctx, site.Long, func() error {
		if err := w.api.DeleteAllOf(ctx, &corev1.Service{}, kube.InNamespace(othersNamespace)); err != nil {
			return err
		}
		var list corev1.ServiceList
		if err := w.api.List(ctx, &list, kube.InNamespace(othersNamespace)); err != nil {
			return err
		}
		if n := len(list.Items); n > 0 {
			return fmt.Errorf("%d Services are left", n)
		}
		return nil
	})
}

// served makes a Service and waits until it has its addresses: the controller works.
func (w *world) served(ctx context.Context) error {
	s := other("probe")
	if err := w.api.Create(ctx, s); err != nil {
		return err
	}
	err := site.Await(ctx, settling, func() error {
		if err := w.api.Get(ctx, kube.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) != 2 {
			return errors.New("a new Service gets no address")
		}
		return nil
	})
	return errors.Join(err, w.sweep(ctx))
}
