package agent

import "github.com/prometheus/client_golang/prometheus"

// metrics of the agent.
type metrics struct {
	announced    prometheus.Gauge
	members      prometheus.Gauge
	takeovers    prometheus.Counter
	takeoverTime prometheus.Histogram
	conflicts    prometheus.Counter
	restored     prometheus.Counter
}

// Descriptions of the metrics.
var (
	announcedOpts = prometheus.GaugeOpts{Name: "fairlead_agent_announced_addresses",
		Help: "Addresses that this node announces."}
	membersOpts = prometheus.GaugeOpts{Name: "fairlead_agent_members",
		Help: "Agents that this one knows to be alive, itself included."}
	takeoversOpts = prometheus.CounterOpts{Name: "fairlead_agent_takeovers_total",
		Help: "Addresses that this node took over from another one."}
	takeoverTimeOpts = prometheus.HistogramOpts{Name: "fairlead_agent_takeover_seconds",
		Help:    "Time from when a node was found dead until this node announced its address.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}
	conflictsOpts = prometheus.CounterOpts{Name: "fairlead_agent_conflicts_total",
		Help: "Times that a host that is no node was found to use an address of a Service."}
	restoredOpts = prometheus.CounterOpts{Name: "fairlead_agent_restored_addresses_total",
		Help: "Times that somebody else removed an address from an interface and it was put back."}
)

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		announced:    prometheus.NewGauge(announcedOpts),
		members:      prometheus.NewGauge(membersOpts),
		takeovers:    prometheus.NewCounter(takeoversOpts),
		takeoverTime: prometheus.NewHistogram(takeoverTimeOpts),
		conflicts:    prometheus.NewCounter(conflictsOpts),
		restored:     prometheus.NewCounter(restoredOpts),
	}
	r.MustRegister(m.announced, m.members, m.takeovers, m.takeoverTime, m.conflicts, m.restored)
	return m
}
