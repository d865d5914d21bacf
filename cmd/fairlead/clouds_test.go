package main

import (
	"slices"
	"testing"

	"fairlead.io/internal/config"
)

// An access token of a cloud is enough to be that cloud's controller manager.
func TestConfiguredClouds(t *testing.T) {
	for variable, want := range map[string][]config.Cloud{
		"HOME":                         nil,
		"CLOUDSCALE_API_URL":           nil,
		"CLOUDSCALE_ACCESS_TOKEN":      {config.CloudscaleNodes},
		"CLOUDSCALE_ACCESS_TOKEN_FILE": {config.CloudscaleNodes},
	} {
		got := configuredClouds(func(name string) string { return map[string]string{variable: "x"}[name] })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", variable, got, want)
		}
	}
}
