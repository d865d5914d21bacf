package metallb

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// metrics are those of MetalLB's speaker, under its names, for dashboards
// and alerts that there are. How many requests are answered is not among them:
// the kernel answers.
type metrics struct {
	announced    *prometheus.GaugeVec
	gratuitous   *prometheus.CounterVec
	updates      prometheus.Counter
	updateErrors prometheus.Counter
	loaded       prometheus.Gauge
	stale        prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
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

// configured notes how many objects cannot be used.
func (m *metrics) configured(bad int) {
	m.loaded.Set(1)
	m.stale.Set(float64(min(bad, 1)))
	if bad > 0 {
		m.updateErrors.Inc()
	}
}

func (m *metrics) announces(service types.NamespacedName, protocol, node string, addr netip.Addr, yes bool) {
	values := []string{service.String(), protocol, node, addr.String()}
	if yes {
		m.announced.WithLabelValues(values...).Set(1)
		return
	}
	m.announced.DeleteLabelValues(values...)
}
