package lb

import (
	"maps"
	"testing"
)

// The labels of a pool that is gone are read from our condition, and from nothing
// that a tenant may have written into it.
func TestFormerPool(t *testing.T) {
	p := FormerPool{PoolKey{Dialect: "metallb", Name: "lan.a"}, map[string]string{"zone": "a", "example.com/tier": "", "x": "y"}}
	kept := OutOfPool.With("192.0.2.7", "is in no pool any more")
	written := p.Before(kept)
	got := (&Service{Says: &Condition{Reason: written}}).FormerPool()
	if got == nil || got.Key != p.Key || !maps.Equal(got.Labels, p.Labels) {
		t.Errorf("%+v is read as %+v", written, got)
	}
	for name, r := range map[string]Reason{
		"nothing":                 kept,
		"in a tenant's words":     kept.And(written),
		"of a Service that waits": {Code: InvalidRequest, Text: written.Text},
		"no labels":               {Code: OutOfPool, Text: `Pool "metallb/lan" with the labels a is gone. More.`},
	} {
		if got := (&Service{Says: &Condition{Reason: r}}).FormerPool(); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if (&Service{}).FormerPool() != nil {
		t.Error("without a condition")
	}
}
