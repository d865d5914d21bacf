// Package soak is the short form of make soak: a minute of faults, in an order that is always
// the same.
package soak

import (
	"context"
	"os"
	"testing"
	"time"

	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/soak"
	"fairlead.io/test/kit/tree"
)

const (
	seed  = 1
	short = time.Minute
)

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), site.Shared, m.Run, func(context.Context) (func(), error) { return func() {}, nil }))
}

// While nodes, agents, controllers and the API server fail one after the other, clients notice no
// more than docs/benchmarks.md says.
func TestClientsNoticeLittle(t *testing.T) {
	scratch := t.TempDir()
	binary, err := tree.Build(t.Context(), "fairlead", scratch)
	if err != nil {
		t.Fatal(err)
	}
	report, err := soak.Run(t.Context(), soak.Options{Cluster: site.Shared, Binary: binary, Scratch: scratch, Seed: seed, For: short, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	report.Print(t.Output())
	for _, b := range report.Breaches {
		t.Errorf("%s: %s", b.Rule, b.Text)
	}
	if report.Happened() == 0 || report.Counts.Made == 0 {
		t.Errorf("%d faults happened, %d connections were made", report.Happened(), report.Counts.Made)
	}
}
