package cloud

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the calls, each attempt by itself: how many by method, kind of
// object and status, and how long they took by method and kind.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers metrics of these names, unless registry is nil.
func NewMetrics(registry prometheus.Registerer, requests prometheus.CounterOpts, duration prometheus.HistogramOpts) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(requests, []string{"method", "kind", "code"}),
		duration: prometheus.NewHistogramVec(duration, []string{"method", "kind"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) observe(c Call, code string, began time.Time) {
	if m == nil {
		return
	}
	method := strings.ToLower(c.Method)
	m.requests.WithLabelValues(method, c.Kind, code).Inc()
	m.duration.WithLabelValues(method, c.Kind).Observe(time.Since(began).Seconds())
}
