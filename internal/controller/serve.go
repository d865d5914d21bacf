package controller

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"fairlead.io/internal/serve"
)

// serveHealth answers /readyz once the process knows the cluster; a replica that
// does not lead is ready, too.
func serveHealth(mgr manager.Manager, o Options, f *foreign, m *kubevipMap) error {
	s, err := serve.Health(o.HealthAddress, func(ctx context.Context) bool { return synced(ctx, mgr.GetCache(), f, m) }, o.Log)
	if err != nil {
		return err
	}
	return mgr.Add(s)
}

// synced says whether all kinds have been listed.
func synced(ctx context.Context, c cache.Cache, f *foreign, m *kubevipMap) bool {
	for _, kind := range watched(m) {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return !slices.ContainsFunc(f.informers(), func(i cache.Informer) bool { return !i.HasSynced() })
}

// serveMetrics answers /metrics with our metrics and controller-runtime's.
func serveMetrics(mgr manager.Manager, o Options, client kubernetes.Interface, ours prometheus.Gatherer) error {
	if o.MetricsAddress == "" {
		return nil
	}
	s, err := serve.Metrics(o.MetricsAddress, client, prometheus.Gatherers{ours, crmetrics.Registry}, o.Log)
	if err != nil {
		return err
	}
	return mgr.Add(s)
}
