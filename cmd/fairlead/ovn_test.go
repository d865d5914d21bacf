package main

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
)

// What cannot be right ends the start with a sentence, before anything is connected to.
func TestOVNStart(t *testing.T) {
	ctx := t.Context()
	with := func(backend config.Backend, change ...func(*config.OVNOptions)) *controller.Options {
		c := &config.Configuration{ClusterName: "c1", Classes: []config.Class{{Name: "x", Backend: backend}}}
		for _, f := range change {
			f(&c.OVN)
		}
		return &controller.Options{Config: c, REST: &rest.Config{Host: "http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler), Backends: map[config.Backend]controller.Backend{}}
	}
	bad := func(string) string { return "tpc:db:6641" }
	none := func(string) string { return "" }
	if err := addOVN(ctx, with(config.OVN), bad, controller.Backend{}); err == nil || err.Error() != `reach OVN: $OVN_NB_DB: endpoint "tpc:db:6641" is not of the kind unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT` {
		t.Errorf("%v", err)
	}
	unreadable := with(config.OVN, func(o *config.OVNOptions) {
		o.Northbound, o.CA, o.Certificate, o.Key = []string{"ssl:db:6641"}, "/nowhere/ca", "/nowhere/cert", "/nowhere/key"
	})
	if err := addOVN(ctx, unreadable, none, controller.Backend{}); err == nil || !strings.Contains(err.Error(), "ovn.ca, ovn.certificate and ovn.key: read CA: open /nowhere/ca") {
		t.Errorf("%v", err)
	}
	other := with(config.Announce)
	if err := addOVN(ctx, other, bad, controller.Backend{}); err != nil || len(other.Backends) > 0 {
		t.Errorf("without OVN: %v", err)
	}
	o := with(config.OVN)
	if err := addOVN(ctx, o, none, controller.Backend{}); err != nil || o.Backends[config.OVN].Backend == nil || !o.Backends[config.OVN].RemoveOrphans {
		t.Errorf("by default: %v, %+v", err, o.Backends)
	}
}
