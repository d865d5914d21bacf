package main

import (
	"slices"
	"testing"

	"fairlead.io/sandbox"
)

// The sandbox runs a cloud by the command of its name.
func TestEveryCloudHasACommand(t *testing.T) {
	var names []string
	for _, command := range cloudCommands {
		names = append(names, command().Name())
	}
	if slices.Sort(names); !slices.Equal(names, sandbox.Clouds()) {
		t.Errorf("commands %v, clouds %v", names, sandbox.Clouds())
	}
}
