package nodes

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics are those of the two controllers. They are in a registry of their
// library, together with others that we have already.
var Metrics prometheus.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), "node_controller_") && !strings.HasPrefix(f.GetName(), "cloud_node_lifecycle_controller_")
	}), err
})
