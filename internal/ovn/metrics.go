package ovn

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/ovsdb"
)

// metrics of the database.
type metrics struct {
	connected    prometheus.Gauge
	repairs      prometheus.Counter
	transactions *prometheus.HistogramVec
}

// newMetrics registers the metrics, unless registry is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_ovn_connected", Help: "1 while the controller is connected to the leader of the OVN northbound database. 0 on replicas that do not lead."}),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_ovn_repairs_total", Help: "How often load balancers in OVN were found changed or deleted by somebody else, and repaired."}),
		transactions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairlead_ovn_transaction_duration_seconds", Help: "How long transactions of the OVN northbound database took, by result: committed, refused or failed.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"result"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.connected, m.repairs, m.transactions} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(took time.Duration, err error) {
	result := "committed"
	if _, refused := errors.AsType[*ovsdb.TransactionError](err); refused {
		result = "refused"
	} else if err != nil {
		result = "failed"
	}
	m.transactions.WithLabelValues(result).Observe(took.Seconds())
}
