package main

import (
	"strings"
	"testing"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
)

func TestOVNStart(t *testing.T) {
	with := func(backend config.Backend) *config.Configuration {
		return &config.Configuration{Classes: []config.Class{{Name: "x", Backend: backend}}}
	}
	bad := func(string) string { return "tpc:db:6641" }
	if err := checkOVN(with(config.OVN), bad); err == nil || err.Error() != `reach OVN: $OVN_NB_DB: "tpc:db:6641" must begin with unix:, tcp: or ssl: and does not` {
		t.Errorf("%v", err)
	}
	if err := checkOVN(with(config.Announce), bad); err != nil {
		t.Errorf("without OVN: %v", err)
	}
	if err := checkOVN(with(config.OVN), func(string) string { return "" }); err != nil {
		t.Errorf("by default: %v", err)
	}
	o := controller.Options{Config: with(config.OVN), Backends: map[config.Backend]controller.Backend{config.Announce: {}}}
	if err := checkBackends(&o); err == nil || !strings.Contains(err.Error(), `class "x": this version of Fairlead cannot serve backend "ovn"`) {
		t.Errorf("%v", err)
	}
	o.Config = with(config.Announce)
	if err := checkBackends(&o); err != nil {
		t.Errorf("%v", err)
	}
}
