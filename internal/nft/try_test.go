package nft_test

import (
	"errors"
	"strings"
	"testing"

	"fairlead.io/internal/nft"
)

// A try leaves nothing behind, and leaves the tables of an agent alone.
func TestTry(t *testing.T) {
	l := newLab(t)
	if err := nft.TryIn(l.node.FD()); err != nil {
		t.Error(err)
	}
	if left := l.node.Run("nft", "list", "ruleset"); strings.Contains(left, "fairlead") {
		t.Errorf("left:\n%s", left)
	}
	table := l.open()
	l.apply(table, owning("eth0"))
	before := l.node.Run("nft", "list", "tables")
	if err := nft.TryIn(l.node.FD()); !errors.Is(err, nft.ErrThere) {
		t.Errorf("with an agent: %v", err)
	}
	if after := l.node.Run("nft", "list", "tables"); after != before || !strings.Contains(after, "inet fairlead") {
		t.Errorf("there are %s, were %s", after, before)
	}
}
