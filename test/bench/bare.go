package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/backend/kubevip"
	theirs "fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// bare is the loop that Fairlead is compared with: the least that anybody can do
// who gives addresses to Services. It lists, watches, and patches the status of
// each pending Service once with the next address, as many at once as the
// controller does and in the same words. It knows no pools, does not look what
// is held by others, keeps no cache, writes no event and never tries again.
//
// provides: it patches the Service itself, with what kube-vip looks for. With a northbound
// database, it first writes the rows of the Service there, in a transaction for each.
func bare(ctx context.Context, kubeconfig string, provides bool, nb *northbound) error {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c.UserAgent = "bare-loop"
	kube, err := newClient(c)
	if err != nil {
		return err
	}
	api := kube.CoreV1().Services(metav1.NamespaceAll)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	has, patch := published, job.patch
	if provides {
		has, patch = given, job.provide
	}
	atOnce := inFlight
	if nb != nil {
		atOnce = ovnInFlight
		if patch, err = nb.program(inFlight); err != nil {
			return err
		}
	}
	pending := make(chan job, 100_000) // more Services than there ever are
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for j := range pending {
				if err := patch(j, ctx, kube); err != nil && ctx.Err() == nil {
					fmt.Println(err)
				}
			}
		})
	}
	defer workers.Wait()
	defer close(pending)

	next := netip.MustParseAddr("198.18.0.0")
	done := map[types.UID]bool{}
	look := func(s *corev1.Service) {
		if ptr.Deref(s.Spec.LoadBalancerClass, "") == config.DefaultClass && !has(s) && !done[s.UID] {
			done[s.UID] = true
			pending <- job{s, next}
			next = next.Next()
		}
	}
	for i := range list.Items {
		look(&list.Items[i])
	}
	w, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if s, is := e.Object.(*corev1.Service); is {
			look(s)
		}
	}
	return errors.New("the watch ended")
}

// job is a Service and the address that it gets.
type job struct {
	service *corev1.Service
	address netip.Addr
}

// patch writes what the controller would write.
func (j job) patch(ctx context.Context, kube kubernetes.Interface) error {
	reason := lb.Ready.Say(j.address.String(), poolName)
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": j.service.ResourceVersion,
			"annotations":     map[string]any{native.AnnotationAllocatedFrom: poolName},
		},
		"status": map[string]any{
			"loadBalancer": map[string]any{"ingress": []corev1.LoadBalancerIngress{{IP: j.address.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}},
			"conditions": []metav1.Condition{{
				Type: kubeapi.ConditionReady, Status: metav1.ConditionTrue,
				Reason: string(reason.Code), Message: reason.Text, LastTransitionTime: metav1.NewTime(time.Now()),
			}},
		},
	})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Services(j.service.Namespace).Patch(ctx, j.service.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{FieldManager: "fairlead"}, "status")
	return err
}

// provide writes what the controller would write for kube-vip.
func (j job) provide(ctx context.Context, kube kubernetes.Interface) error {
	v := lb.Verdict{
		Addresses: []netip.Addr{j.address}, Pools: []lb.PoolKey{{Dialect: theirs.Name, Name: kubevipKey}},
		Reason: lb.Ready.Say(j.address.String(), kubevipKey),
	}
	s := kubeapi.Service(j.service)
	out, err := kubevip.Backend{}.Sync(ctx, lb.Want{Service: *s, Request: lb.Request{Families: []lb.Family{lb.IPv4}}, Verdict: v})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Services(j.service.Namespace).Patch(ctx, j.service.Name, types.StrategicMergePatchType,
		kubeapi.Patch(s, &out, time.Now()).Object, metav1.PatchOptions{FieldManager: "fairlead"})
	return err
}
