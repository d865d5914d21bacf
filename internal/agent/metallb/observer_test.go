package metallb

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// gathered returns all metrics as "name label=value… value".
func gathered(t *testing.T, r *prometheus.Registry) (out []string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := []string{f.GetName()}
			for _, label := range m.GetLabel() {
				text = append(text, label.GetName()+"="+label.GetValue())
			}
			out = append(out, fmt.Sprint(strings.Join(text, " "), " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return out
}

// The metrics are those of MetalLB's speakers.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := New(Options{REST: &rest.Config{Host: "https://nowhere.invalid"}, Log: slog.New(slog.DiscardHandler), Node: "a", Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	service, addr := types.NamespacedName{Namespace: "shop", Name: "web"}, netip.MustParseAddr("192.0.2.7")
	m.Read(3)
	m.Configured([]sources.Configuration{{Dialect: metallb.Name, Problems: []sources.Problem{{Kind: "IPAddressPool", Name: "edge", Reason: lb.PoolInvalid.With("x")}}}})
	m.Announced(service, addr, "layer2", true)
	m.Sent(addr)
	m.Sent(addr)
	want := []string{
		"metallb_k8s_client_config_loaded_bool 1", "metallb_k8s_client_config_stale_bool 1", "metallb_k8s_client_update_errors_total 1", "metallb_k8s_client_updates_total 3",
		"metallb_layer2_gratuitous_sent ip=192.0.2.7 2", "metallb_speaker_announced ip=192.0.2.7 node=a protocol=layer2 service=shop/web 1",
	}
	if diff := cmp.Diff(want, gathered(t, registry)); diff != "" {
		t.Error(diff)
	}
	m.Announced(service, addr, "layer2", false)
	m.Forget(addr)
	if left := gathered(t, registry); slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "192.0.2.7") }) {
		t.Errorf("left: %v", left)
	}
}

// Events have MetalLB's words where it has some.
func TestEvents(t *testing.T) {
	m := &Observer{}
	for reason, want := range map[lb.Reason]string{lb.Announced.With("192.0.2.7", "a", "eth0"): "nodeAssigned", lb.AddressConflict.With("192.0.2.7", "eth0", "a", "02:00:00:00:00:09"): "AddressConflict"} {
		if code, component := m.Event(reason); code != want || component != "metallb-speaker" {
			t.Errorf("%s of %s, want %s", code, component, want)
		}
	}
	if !m.Observes(lb.PoolKey{Dialect: metallb.Name, Name: "edge"}) || m.Observes(lb.PoolKey{Dialect: lb.Native, Name: "edge"}) {
		t.Error("observes other pools")
	}
}
