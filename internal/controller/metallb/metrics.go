package metallb

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// Metrics under MetalLB's names, so that its dashboards and alerts go on working.
// A replica that does not lead has no pools to tell of: MetalLB's alerts expect
// each of them once.
var (
	metallbTotal = prometheus.NewDesc("metallb_allocator_addresses_total",
		"Usable addresses of an IPAddressPool, including those in use.", []string{"pool"}, nil)
	metallbUsed = prometheus.NewDesc("metallb_allocator_addresses_in_use_total",
		"Addresses of an IPAddressPool in use by Services. A shared address counts once.", []string{"pool"}, nil)
	metallbTotalIPv4 = prometheus.NewDesc("metallb_allocator_ipv4_addresses_total",
		"The same as metallb_allocator_addresses_total, IPv4 only.", []string{"pool"}, nil)
	metallbTotalIPv6 = prometheus.NewDesc("metallb_allocator_ipv6_addresses_total",
		"The same as metallb_allocator_addresses_total, IPv6 only.", []string{"pool"}, nil)
	metallbUsedIPv4 = prometheus.NewDesc("metallb_allocator_ipv4_addresses_in_use_total",
		"The same as metallb_allocator_addresses_in_use_total, IPv4 only.", []string{"pool"}, nil)
	metallbUsedIPv6 = prometheus.NewDesc("metallb_allocator_ipv6_addresses_in_use_total",
		"The same as metallb_allocator_addresses_in_use_total, IPv6 only.", []string{"pool"}, nil)
	metallbLoaded = prometheus.NewDesc("metallb_k8s_client_config_loaded_bool",
		"1 after all objects have been read.", nil, nil)
	metallbStale = prometheus.NewDesc("metallb_k8s_client_config_stale_bool",
		"1 while a MetalLB object is rejected or has no effect. Other objects are not affected. The ConfigurationState named controller lists them.", nil, nil)

	metallbUpdatesOpts = prometheus.CounterOpts{
		Name: "metallb_k8s_client_updates_total",
		Help: "Object changes that the controller has processed.",
	}
	metallbErrorsOpts = prometheus.CounterOpts{
		Name: "metallb_k8s_client_update_errors_total",
		Help: "Object changes that failed and were retried.",
	}
)

// Describe names the metrics.
func (m *Reporter) Describe(out chan<- *prometheus.Desc) {
	m.updates.Describe(out)
	m.failures.Describe(out)
	for _, d := range []*prometheus.Desc{
		metallbTotal, metallbUsed, metallbTotalIPv4, metallbTotalIPv6, metallbUsedIPv4, metallbUsedIPv6, metallbLoaded, metallbStale,
	} {
		out <- d
	}
}

// Collect reads what it tells when it is asked.
func (m *Reporter) Collect(out chan<- prometheus.Metric) {
	m.updates.Collect(out)
	m.failures.Collect(out)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, u := range m.usage() {
		if u.Key.Dialect != metallb.Name {
			continue
		}
		v4, v6 := u.Families[lb.IPv4], u.Families[lb.IPv6]
		total := capacity(v4) + capacity(v6)
		if total == 0 {
			continue // one in which there is nothing valid is not full
		}
		gauge(metallbTotal, total, u.Key.Name)
		gauge(metallbTotalIPv4, capacity(v4), u.Key.Name)
		gauge(metallbTotalIPv6, capacity(v6), u.Key.Name)
		gauge(metallbUsed, float64(v4.Used+v6.Used), u.Key.Name)
		gauge(metallbUsedIPv4, float64(v4.Used), u.Key.Name)
		gauge(metallbUsedIPv6, float64(v6.Used), u.Key.Name)
	}
	gauge(metallbLoaded, boolean(m.loaded()))
	gauge(metallbStale, boolean(m.stale.Load()))
}

// capacity is what Services have and can have yet: a pool of which the rest is
// reserved, or belongs to nodes, is full.
func capacity(f ipam.FamilyUsage) float64 {
	if f.Total == math.MaxInt64 {
		return math.MaxInt64
	}
	return float64(f.Used) + float64(f.Free)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
