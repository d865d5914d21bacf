package metallb

import (
	"errors"
	"math"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

func span(text string) netipx.IPRange {
	s, err := lb.ParseSpan(text)
	if err != nil {
		panic(err)
	}
	return s
}

// allocatorOf has pools and Services; each Service takes one address.
func allocatorOf(services int, pools ...lb.Pool) *ipam.Allocator {
	a := ipam.New()
	a.SetPools(pools)
	for i := range services {
		a.Settle(lb.Request{Service: types.NamespacedName{Namespace: "default", Name: string(rune('a' + i))}, Families: []lb.Family{lb.IPv4},
			Dialects: []lb.Dialect{metallb.Name}}, nil)
	}
	return a
}

// More addresses than a number can say are never negative, in whatever order.
func TestNumbersOfHugePools(t *testing.T) {
	a := allocatorOf(2, lb.Pool{Key: lb.PoolKey{Dialect: metallb.Name, Name: "lan"}, Spans: []netipx.IPRange{span("192.0.2.0/30"), span("fd00::/48"), span("fd02::/16")}},
		lb.Pool{Key: lb.PoolKey{Dialect: metallb.Name, Name: "none"}, Invalid: &lb.Reason{Code: lb.PoolInvalid}, Spans: []netipx.IPRange{span("198.51.100.0/24")}})
	usage := map[string]ipam.PoolUsage{}
	for _, u := range a.Usage() {
		usage[u.Key.Name] = u
	}
	want := numbers{"assignedIPv4": 2, "availableIPv4": 2, "assignedIPv6": 0, "availableIPv6": math.MaxInt64}
	if diff := cmp.Diff(want, poolNumbers(usage["lan"])); diff != "" {
		t.Error(diff)
	}
	want = numbers{"assignedIPv4": 0, "availableIPv4": 0, "assignedIPv6": 0, "availableIPv6": 0}
	if diff := cmp.Diff(want, poolNumbers(usage["none"])); diff != "" {
		t.Error(diff)
	}
}

// MetalLB's alerts compare these: a pool is full when nothing can be had of it,
// and one without an address is not.
func TestMetricsOfMetalLB(t *testing.T) {
	key := func(name string) lb.PoolKey { return lb.PoolKey{Dialect: metallb.Name, Name: name} }
	a := allocatorOf(2,
		lb.Pool{Key: key("a"), Spans: []netipx.IPRange{span("192.0.2.0/31"), span("192.0.2.9"), span("fd00::/64")}},
		lb.Pool{Key: key("empty"), Invalid: &lb.Reason{Code: lb.PoolInvalid}},
		lb.Pool{Key: lb.PoolKey{Dialect: lb.Native, Name: "ours"}, Spans: []netipx.IPRange{span("198.51.100.0/24")}})
	a.SetOwners(ipam.Owners{Nodes: map[netip.Addr]string{netip.MustParseAddr("192.0.2.9"): "node1"}})
	reporter := NewReporter(controller.Tools{Usage: a.Usage, Loaded: func() bool { return true }}, "metallb-system", nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(reporter)
	reporter.Count(nil)
	reporter.Count(nil)
	reporter.Count(errors.New("away"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{
		"metallb_allocator_addresses_total a": math.MaxInt64 + 2., "metallb_allocator_addresses_in_use_total a": 2,
		"metallb_allocator_ipv4_addresses_total a": 2, "metallb_allocator_ipv4_addresses_in_use_total a": 2,
		"metallb_allocator_ipv6_addresses_total a": math.MaxInt64, "metallb_allocator_ipv6_addresses_in_use_total a": 0,
		"metallb_k8s_client_config_loaded_bool": 1, "metallb_k8s_client_config_stale_bool": 0,
		"metallb_k8s_client_updates_total": 3, "metallb_k8s_client_update_errors_total": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
