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
		Help: "Agents known to be alive, including this one."}
	takeoversOpts = prometheus.CounterOpts{Name: "fairlead_agent_takeovers_total",
		Help: "Addresses that this node took over from another node."}
	takeoverTimeOpts = prometheus.HistogramOpts{Name: "fairlead_agent_takeover_seconds",
		Help:    "Time from the detection of a dead node until this node announced its address.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}
	conflictsOpts = prometheus.CounterOpts{Name: "fairlead_agent_conflicts_total",
		Help: "Address conflicts: a host that is not a node used an address of a Service."}
	restoredOpts = prometheus.CounterOpts{Name: "fairlead_agent_restored_addresses_total",
		Help: "Addresses that another program removed from an interface and the agent restored."}
	unprovenOpts = prometheus.CounterOpts{Name: "fairlead_agent_unproven_processes_total",
		Help: "Processes on the node that tried to take part in the handover between agents and did not prove to have the gossip key."}
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
