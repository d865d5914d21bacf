package cloudscale

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the calls, each attempt by itself.
var (
	requestsOpts = prometheus.CounterOpts{
		Name: "fairlead_cloudscale_requests_total",
		Help: "Requests to cloudscale.ch's API, by method, kind of object and status. The status is \"none\" if there was no response.",
	}
	durationOpts = prometheus.HistogramOpts{
		Name:    "fairlead_cloudscale_request_seconds",
		Help:    "Response time of cloudscale.ch's API, by method and kind of object.",
		Buckets: prometheus.ExponentialBuckets(0.02, 2, 11),
	}
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(requestsOpts, []string{"method", "kind", "code"}),
		duration: prometheus.NewHistogramVec(durationOpts, []string{"method", "kind"}),
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

func (m *metrics) observe(c call, code string, began time.Time) {
	method := strings.ToLower(c.method)
	m.requests.WithLabelValues(method, c.kind, code).Inc()
	m.duration.WithLabelValues(method, c.kind).Observe(time.Since(began).Seconds())
}
