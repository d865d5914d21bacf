package agent

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countPeriod is how often the agent looks whether the first packet has arrived.
const countPeriod = time.Second

// received reads from our tables, when somebody asks, how many packets have arrived.
type received struct {
	tables Tables
	desc   *prometheus.Desc
}

func newReceived(t Tables) *received {
	return &received{t, prometheus.NewDesc("fairlead_agent_received_packets_total",
		"Packets that arrived from outside for a port of an address that the controller has placed on this node.",
		[]string{"address", "protocol", "port"}, nil)}
}

// Describe is of prometheus.Collector.
func (r *received) Describe(ch chan<- *prometheus.Desc) { ch <- r.desc }

// Collect is of prometheus.Collector.
func (r *received) Collect(ch chan<- prometheus.Metric) {
	counts, err := r.tables.Counts()
	if err != nil {
		return // the tables are about to be rebuilt, and the loop reports it
	}
	for f, n := range counts {
		ch <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, float64(n.Packets),
			f.Addr.String(), f.Port.Protocol, strconv.Itoa(int(f.Port.Number)))
	}
}

// inheritReceived notes for which addresses the earlier agent has logged a packet.
func (a *agent) inheritReceived() {
	counts, err := a.tables.nft.Counts()
	if err != nil {
		a.log.Error("packets not counted", "error", err)
	}
	for f, n := range counts {
		if h := a.held[f.Addr]; h != nil && n.Packets > 0 {
			h.received = true
		}
	}
}

// logFirstPackets logs for each address that is counted when the first packet has
// arrived since it is here. Until then nobody knows whether it is led here from
// outside.
func (a *agent) logFirstPackets() {
	waiting := false
	for addr, h := range a.held {
		waiting = waiting || h.up && !h.received && a.tables.state.VIPs[addr].Counted
	}
	if !waiting {
		return
	}
	counts, err := a.tables.nft.Counts()
	if err != nil {
		a.log.Error("packets not counted", "error", err)
		return
	}
	for f, n := range counts {
		if h := a.held[f.Addr]; h != nil && h.up && !h.received && n.Packets > 0 {
			h.received = true
			a.log.Info("the first packet from outside arrived for the address", "address", f.Addr, "protocol", f.Port.Protocol, "port", f.Port.Number)
		}
	}
}
