package controller

import (
	"context"
	"time"

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
	poolFree = prometheus.NewDesc("fairlead_pool_addresses_free",
		"Addresses of a pool that it can still assign, by IP family: neither used nor reserved nor a node's. 0 if the pool is not ready.", []string{"pool", "dialect", "family"}, nil)
	poolUp = prometheus.NewDesc("fairlead_pool_ready",
		"1 if the pool assigns addresses, otherwise 0, with the reason.", []string{"pool", "dialect", "reason"}, nil)
	servicesByReason = prometheus.NewDesc("fairlead_services",
		"Services of type LoadBalancer of a served class, by reason.", []string{"reason"}, nil)
	servicesByState = prometheus.NewDesc("fairlead_services_state",
		"Services of type LoadBalancer of a served class, by state: ready (has what it requests), unannounced (nobody answers for one of its addresses) or waiting.", []string{"state"}, nil)
	waitingSeconds = prometheus.NewDesc("fairlead_services_waiting_seconds",
		"How long the Service that waits longest has waited, by its reason. 0 if none waits for this reason.", []string{"reason"}, nil)
	agentUp = prometheus.NewDesc("fairlead_agent_ready",
		"1 if the node's agent announces, otherwise 0, with the reason. An agent that does not answer is not ready. Only where agents announce.", []string{"node", "reason"}, nil)
	unannouncedAddresses = prometheus.NewDesc("fairlead_addresses_unannounced",
		"Addresses of Services for which nobody answers, by reason. Only where agents announce.", []string{"reason"}, nil)
	unheardAddresses = prometheus.NewDesc("fairlead_addresses_unheard",
		"Addresses of Services that nodes announce by BGP, and on no LAN, while none of these nodes has a session with a router. Only where agents announce.", nil, nil)
	leading = prometheus.NewDesc("fairlead_leader",
		"1 in the replica that leads and knows what all Services have. Other replicas have no metrics of pools and Services.", nil, nil)
)

// States of Services.
const (
	stateReady       = "ready"
	stateUnannounced = "unannounced"
	stateWaiting     = "waiting"
)

// timeToAddressOpts describes the histogram of what a user waits for.
var timeToAddressOpts = prometheus.HistogramOpts{
	Name:    "fairlead_time_to_address_seconds",
	Help:    "Time from the creation of a Service until its first address was written.",
	Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
}

// collector reads the metrics of pools and Services when asked, so that they are never
// behind. A replica that does not lead, or still imports, has none: zeros would look
// like the truth.
type collector struct {
	ctx      context.Context
	ledger   *ledger
	services []*services
	agents   *agents // nil if no agent announces
	// leads says whether this replica leads and knows what Services have.
	leads func() bool
	// reasons is everything that Services can be told.
	reasons lb.Table
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolTotal, poolUsed, poolFree, poolUp, servicesByReason, servicesByState, waitingSeconds, agentUp, unannouncedAddresses, unheardAddresses, leading} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if !c.leads() {
		gauge(leading, 0)
		return
	}
	gauge(leading, 1)
	c.collectPools(gauge)
	reasons, states, since := map[lb.Code]int{}, map[string]int{stateReady: 0, stateUnannounced: 0, stateWaiting: 0}, map[lb.Code]time.Time{}
	for _, svc := range c.services {
		svc.memos.count(reasons, states, since)
		svc.orphans.countByReason(reasons)
	}
	for state, n := range states {
		gauge(servicesByState, float64(n), state)
	}
	c.agents.each(c.ctx, func(node string, ready bool, reason string) {
		gauge(agentUp, number(ready), node, reason)
	})
	if c.agents != nil {
		gauge(unheardAddresses, float64(c.agents.countUnheard(c.ctx)))
	}
	silent, now := c.agents.countSilent(c.ctx), time.Now()
	for code, about := range c.reasons { // all of them, so that a dashboard sees a 0
		if about.On == "Service" {
			gauge(servicesByReason, float64(reasons[code]), string(code))
		}
		if about.On == "Service" && !about.Ready && !about.Event {
			waited := 0.0
			if first, waits := since[code]; waits {
				waited = max(0, now.Sub(first).Seconds())
			}
			gauge(waitingSeconds, waited, string(code))
		}
		if about.On == "Service" && about.Event && about.Warning && c.agents != nil {
			gauge(unannouncedAddresses, float64(silent[code]), string(code))
		}
	}
}

func (c collector) collectPools(gauge func(*prometheus.Desc, float64, ...string)) {
	for _, u := range c.ledger.usage() {
		pool, dialect := u.Key.Name, string(u.Key.Dialect)
		ready := number(u.Reason.Ready())
		gauge(poolUp, ready, pool, dialect, string(u.Reason.Code))
		for _, family := range lb.Families {
			if f := u.Families[family]; f.Total > 0 {
				gauge(poolTotal, float64(f.Total), pool, dialect, family.String())
				gauge(poolUsed, float64(f.Used), pool, dialect, family.String())
				gauge(poolFree, ready*float64(f.Free), pool, dialect, family.String())
			}
		}
	}
}

// number is how a metric says yes or no.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
