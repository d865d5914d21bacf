package failover

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// publishLeases publishes, in the place of the controller, what agents have leased.
func publishLeases(t *testing.T) {
	stopController()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var list v1alpha1.AgentList
			var services corev1.ServiceList
			_ = api.List(ctx, &list)
			_ = api.List(ctx, &services, client.InNamespace("default"))
			latest := v1alpha1.LatestLeases(list.Items)
			for i := range services.Items {
				s := &services.Items[i]
				var in []corev1.LoadBalancerIngress
				for _, f := range s.Spec.IPFamilies {
					if l := latest[v1alpha1.LeaseOf{Service: s.Namespace + "/" + s.Name, Family: string(f)}]; l.Address != "" {
						in = append(in, corev1.LoadBalancerIngress{IP: l.Address})
					}
				}
				same := len(in) == len(s.Status.LoadBalancer.Ingress)
				for j := range in {
					same = same && in[j].IP == s.Status.LoadBalancer.Ingress[j].IP
				}
				if !same && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
					s.Status.LoadBalancer.Ingress = in
					_ = api.Status().Update(ctx, s)
				}
			}
			<-time.After(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done; _ = startController() })
}
