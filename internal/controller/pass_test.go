package controller

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Orphans are looked for once all Services were looked at, until that succeeds.
func TestPass(t *testing.T) {
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	var p pass
	looks, err := 0, errors.New("away")
	then := func() error { looks++; return err }
	see := func(want int) {
		t.Helper()
		if p.tasks.Wait(); looks != want {
			t.Errorf("looked %d times, want %d", looks, want)
		}
	}
	p.looked(a)
	see(0)
	p.begin([]types.NamespacedName{a, b}, then)
	p.looked(a)
	p.looked(a)
	see(0)
	p.looked(b)
	see(1)
	p.looked(b)
	see(1)
	err = nil
	p.begin(nil, then)
	see(2)
	p.begin(nil, then)
	see(2)
	p.stop()

	var stopped pass
	stopped.begin([]types.NamespacedName{a}, then)
	stopped.stop()
	stopped.looked(a)
	see(2)
}
