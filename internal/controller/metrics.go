package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/lb"
)

// Metrics of our own; those of controller-runtime (among them
// controller_runtime_reconcile_time_seconds) are served beside them.
var (
	poolTotal = prometheus.NewDesc("fairlead_pool_addresses",
		"Addresses of a pool, by IP family.", []string{"pool", "dialect", "family"}, nil)
	poolUsed = prometheus.NewDesc("fairlead_pool_addresses_used",
		"Addresses of a pool in use by Services, by IP family. A shared address counts once.", []string{"pool", "dialect", "family"}, nil)
	poolUp = prometheus.NewDesc("fairlead_pool_ready",
		"1 if the pool assigns addresses, otherwise 0, with the reason.", []string{"pool", "dialect", "reason"}, nil)
	servicesByReason = prometheus.NewDesc("fairlead_services",
		"Services of type LoadBalancer of a served class, by reason.", []string{"reason"}, nil)
)

// timeToAddressOpts describes the histogram of what a user waits for.
var timeToAddressOpts = prometheus.HistogramOpts{
	Name:    "fairlead_time_to_address_seconds",
	Help:    "Time from the creation of a Service until its first address was written.",
	Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
}

// collector reads the metrics of pools and Services from the ledger when asked,
// so that they are never behind it.
type collector struct {
	ledger   *ledger
	services []*services
	// reasons is everything that Services can be told.
	reasons lb.Table
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolTotal, poolUsed, poolUp, servicesByReason} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, u := range c.ledger.usage() {
		pool, dialect := u.Key.Name, string(u.Key.Dialect)
		for _, family := range lb.Families {
			if f := u.Families[family]; f.Total > 0 {
				gauge(poolTotal, float64(f.Total), pool, dialect, family.String())
				gauge(poolUsed, float64(f.Used), pool, dialect, family.String())
			}
		}
		ready := 0.0
		if u.Reason.Ready() {
			ready = 1
		}
		gauge(poolUp, ready, pool, dialect, string(u.Reason.Code))
	}
	count := c.ledger.countByReason()
	for _, svc := range c.services {
		if !svc.classes.fromPools(svc.name) { // else the ledger counts
			for code, n := range svc.memos.countByReason() {
				count[code] += n
			}
		}
		svc.orphans.countByReason(count)
	}
	for code, about := range c.reasons { // all of them, so that a dashboard sees a 0
		if about.On == "Service" {
			gauge(servicesByReason, float64(count[code]), string(code))
		}
	}
}
