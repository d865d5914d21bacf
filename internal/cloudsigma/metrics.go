package cloudsigma

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the calls, each attempt by itself.
var (
	requestsOpts = prometheus.CounterOpts{
		Name: "fairlead_cloudsigma_requests_total",
		Help: "Requests to CloudSigma's API, by method, kind of object and status. The status is \"none\" if there was no response.",
	}
	durationOpts = prometheus.HistogramOpts{
		Name:    "fairlead_cloudsigma_request_seconds",
		Help:    "Response time of CloudSigma's API, by method and kind of object.",
		Buckets: prometheus.ExponentialBuckets(0.02, 2, 11),
	}
)
