package agent

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// layer2 is what MetalLB calls announcing by ARP and NDP.
const layer2 = "layer2"

// classicMetrics are those of MetalLB's speaker, under its names, for dashboards
// and alerts that there are. How many requests are answered is not among them:
// the kernel answers.
type classicMetrics struct {
	announced    *prometheus.GaugeVec
	gratuitous   *prometheus.CounterVec
	updates      prometheus.Counter
	updateErrors prometheus.Counter
	loaded       prometheus.Gauge
	stale        prometheus.Gauge
}

func newClassicMetrics(r prometheus.Registerer) *classicMetrics {
	m := &classicMetrics{
		announced: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "metallb_speaker_announced",
			Help: "1 for each address that this node announces for a Service."}, []string{"service", "protocol", "node", "ip"}),
		gratuitous: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "metallb_layer2_gratuitous_sent",
			Help: "Gratuitous ARP and unsolicited neighbour advertisement frames sent, by address."}, []string{"ip"}),
		updates: prometheus.NewCounter(prometheus.CounterOpts{Name: "metallb_k8s_client_updates_total",
			Help: "Object changes that the agent has processed."}),
		updateErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "metallb_k8s_client_update_errors_total",
			Help: "Changes of IPAddressPools and L2Advertisements after which one of them is invalid."}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "metallb_k8s_client_config_loaded_bool",
			Help: "1 after the pools have been read."}),
		stale: prometheus.NewGauge(prometheus.GaugeOpts{Name: "metallb_k8s_client_config_stale_bool",
			Help: "1 while an IPAddressPool or L2Advertisement is invalid."}),
	}
	r.MustRegister(m.announced, m.gratuitous, m.updates, m.updateErrors, m.loaded, m.stale)
	return m
}

// count counts what was read.
func (m *classicMetrics) count(c *changes) {
	n := len(c.services) + len(c.slices)
	for _, one := range []bool{c.nodes, c.pools} {
		if one {
			n++
		}
	}
	m.updates.Add(float64(n))
}

// configured is told how many objects cannot be used.
func (m *classicMetrics) configured(bad int) {
	m.loaded.Set(1)
	m.stale.Set(float64(min(bad, 1)))
	if bad > 0 {
		m.updateErrors.Inc()
	}
}

func (m *classicMetrics) announces(service types.NamespacedName, node string, addr netip.Addr, yes bool) {
	values := []string{service.String(), layer2, node, addr.String()}
	if yes {
		m.announced.WithLabelValues(values...).Set(1)
		return
	}
	m.announced.DeleteLabelValues(values...)
}
