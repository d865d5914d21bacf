package controller

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/serve"
)

// serveHealth answers /readyz once the process knows the cluster; a replica that
// does not lead is ready, too.
func serveHealth(mgr manager.Manager, o Options, cs *classes, k *apikinds.Set) error {
	s, err := serve.Health(o.HealthAddress, func(ctx context.Context) bool { return synced(ctx, mgr.GetCache(), cs, k) }, o.Log)
	if err != nil {
		return err
	}
	return mgr.Add(s)
}

// synced says whether all kinds have been listed that have to be there, or are.
func synced(ctx context.Context, c cache.Cache, cs *classes, k *apikinds.Set) bool {
	for _, kind := range watched(cs) {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return !slices.ContainsFunc(k.Informers(), func(i cache.Informer) bool { return !i.HasSynced() })
}

// serveMetrics answers /metrics with our metrics, controller-runtime's and those
// of other parts.
func serveMetrics(mgr manager.Manager, o Options, ours prometheus.Gatherer) error {
	if o.MetricsAddress == "" {
		return nil
	}
	all := append(prometheus.Gatherers{ours, crmetrics.Registry}, o.Metrics...)
	s, err := serve.Metrics(o.MetricsAddress, mgr.GetConfig(), all, o.Log)
	if err != nil {
		return err
	}
	return mgr.Add(s)
}
