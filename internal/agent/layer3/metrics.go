package layer3

import (
	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
)

var (
	sessionUp = prometheus.NewDesc("fairlead_bgp_session_up", "1 if the BGP session with the peer is established.", []string{"peer"}, nil)
	prefixes  = prometheus.NewDesc("fairlead_bgp_announced_prefixes", "Prefixes that were announced to the peer.", []string{"peer"}, nil)
	withheld  = prometheus.NewDesc("fairlead_bgp_withheld_prefixes", "Prefixes that are not announced to the peer, because of its limits or families.", []string{"peer"}, nil)
	sessions  = prometheus.NewDesc("fairlead_bgp_sessions_total", "BGP sessions with the peer since the agent started.", []string{"peer"}, nil)
	updates   = prometheus.NewDesc("fairlead_bgp_updates_sent_total", "UPDATE messages sent to the peer.", []string{"peer"}, nil)
	pathUp    = prometheus.NewDesc("fairlead_bfd_session_up", "1 if the BFD session with the peer is up.", []string{"peer"}, nil)
	pathDowns = prometheus.NewDesc("fairlead_bfd_session_downs_total", "How often the BFD session with the peer failed.", []string{"peer"}, nil)
)

// collector reads the metrics when they are asked for.
type collector struct{ statuses func() []agent.PeerStatus }

// NewCollector has the metrics of sessions that are so.
func NewCollector(statuses func() []agent.PeerStatus) prometheus.Collector {
	return &collector{statuses}
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionUp, prefixes, withheld, sessions, updates, pathUp, pathDowns} {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.statuses() {
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Name)
		}
		count := func(d *prometheus.Desc, v uint64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), s.Name)
		}
		gauge(sessionUp, number(s.State == bgp.Established))
		gauge(prefixes, float64(s.Prefixes))
		gauge(withheld, float64(len(s.Withheld)))
		count(sessions, s.Established)
		count(updates, s.Sent.Updates)
		if s.BFD != nil {
			gauge(pathUp, number(s.BFD.State == bfd.Up))
			count(pathDowns, s.BFD.Downs)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
