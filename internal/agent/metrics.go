package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent/carrying"
)

// metrics of the agent.
type metrics struct {
	announced    prometheus.Gauge
	members      prometheus.Gauge
	takeovers    prometheus.Counter
	takeoverTime prometheus.Histogram
	conflicts    prometheus.Counter
	restored     prometheus.Counter
	carried      prometheus.Gauge
	listed       prometheus.Gauge
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
	carriedOpts = prometheus.GaugeOpts{Name: "fairlead_agent_carried_connections",
		Help: "Established connections whose packets this node sends to the node that had their address before."}
	listedOpts = prometheus.GaugeOpts{Name: "fairlead_agent_remaining_connections",
		Help: "Established connections of this node whose address has moved to another node."}
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
		carried:      prometheus.NewGauge(carriedOpts),
		listed:       prometheus.NewGauge(listedOpts),
	}
	r.MustRegister(m.announced, m.members, m.takeovers, m.takeoverTime, m.conflicts, m.restored, m.carried, m.listed)
	return m
}

// carriedPackets reads from our tables, when somebody asks, how many packets were sent on.
type carriedPackets struct {
	packets func() (uint64, error)
	desc    *prometheus.Desc
}

func newCarriedPackets(c *carrying.Carrying) *carriedPackets {
	return &carriedPackets{c.Packets, prometheus.NewDesc("fairlead_agent_carried_packets_total",
		"Packets of established connections that this node sent to the node that had their address before.", nil, nil)}
}

// Describe is of prometheus.Collector.
func (c *carriedPackets) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is of prometheus.Collector.
func (c *carriedPackets) Collect(ch chan<- prometheus.Metric) {
	if n, err := c.packets(); err == nil { // otherwise there are no tables
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n))
	}
}
