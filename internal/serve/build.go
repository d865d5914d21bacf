package serve

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

var buildInfo = prometheus.NewDesc("fairlead_build_info",
	"1, with the version of Fairlead and of Go.", []string{"version", "goversion"}, nil)

// BuildInfo says which version runs; both daemons have it.
func BuildInfo(version string) prometheus.Collector { return build(version) }

type build string

func (b build) Describe(out chan<- *prometheus.Desc) { out <- buildInfo }

func (b build) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, string(b), runtime.Version())
}
