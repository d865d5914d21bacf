package nft_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func noticed(t *testing.T, table *nft.Table) {
	t.Helper()
	select {
	case <-table.Tampered():
	case <-time.After(time.Minute):
		t.Fatal("not noticed")
	}
}

func unnoticed(t *testing.T, table *nft.Table) {
	t.Helper()
	select {
	case <-table.Tampered():
		t.Fatal("noticed, but it is nothing")
	default:
	}
}

func TestChangesByOthersAreNoticedAndMended(t *testing.T) {
	for _, test := range []struct {
		what string
		args []string
	}{
		{"flush", []string{"flush", "ruleset"}},
		{"one table", []string{"delete", "table", "arp", "fairlead"}},
		{"rules", []string{"flush", "chain", "inet", "fairlead", "prerouting"}},
		{"elements", []string{"flush", "set", "inet", "fairlead", "vips6"}},
		{"one more", []string{"add", "element", "arp", "fairlead", "published", "{ 192.0.2.10 }"}},
		{"fence", []string{"flush", "set", "inet", "fairlead", "alive"}},
		{"a chain of theirs", []string{"add", "chain", "inet", "fairlead", "theirs"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			l := newLab(t)
			table := l.open()
			s := owning("eth0")
			l.apply(table, s)
			l.grant(table, "eth0")
			clean := l.ruleset()
			l.node.Run("nft", "add", "table", "inet", "somebody")
			l.node.Run("nft", "delete", "table", "inet", "somebody")
			if lost, err := table.Renew([]string{"eth0"}); err != nil || lost != nil {
				t.Fatal(lost, err)
			}
			unnoticed(t, table)
			if !table.Intact() {
				t.Error("not intact before anything has happened")
			}
			l.node.Run("nft", test.args...)
			noticed(t, table)
			// A fence that is gone shows when it is to be renewed.
			if table.Intact() && test.what != "fence" {
				t.Error("intact")
			}
			if err := table.Rebuild(s, []string{"eth0", "eth1"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(clean, l.ruleset()); diff != "" {
				t.Error(diff)
			}
			for _, f := range lb.Families {
				if !l.answers(vip, f) {
					t.Errorf("%v: not answered", f)
				}
				if l.answers(other, f) {
					t.Errorf("%v: answered, but not owned", f)
				}
			}
			if lost, err := table.Renew([]string{"eth0", "eth1"}); err != nil || !slices.Equal(lost, []string{"eth1"}) {
				t.Errorf("lost %v, %v", lost, err)
			}
			// What was told late of the change is no new one.
			if !table.Intact() {
				t.Error("not intact after it was mended")
			}
		})
	}
}

// ruleset is the lab node's, without what changes by itself.
func (l *lab) ruleset() []string {
	var out []string
	for line := range strings.Lines(l.node.Run("nft", "-s", "list", "ruleset")) {
		if !strings.Contains(line, "expires") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	// Elements have no order.
	slices.Sort(out)
	return strings.FieldsFunc(strings.Join(out, "\n"), func(r rune) bool { return r == '\n' })
}

func TestAFenceTakenBeforeItsTimeIsNotLost(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.grant(table, "eth0")
	l.node.Run("nft", "flush", "ruleset")
	if lost, err := table.Renew([]string{"eth0"}); !errors.Is(err, nft.ErrTampered) || len(lost) != 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	if err := table.Grant("eth0"); !errors.Is(err, nft.ErrTampered) {
		t.Error(err)
	}
	for range 2 {
		if err := table.Apply(owning("eth0")); !errors.Is(err, nft.ErrTampered) {
			t.Error(err)
		}
	}
	noticed(t, table)
}

func TestRebuildDoesNotBringBackAFenceThatHasRunOut(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	<-time.After(nft.FenceTime)
	l.node.Run("nft", "flush", "ruleset")
	noticed(t, table)
	if err := table.Rebuild(owning("eth0"), []string{"eth0"}); err != nil {
		t.Fatal(err)
	}
	if l.answers(vip, lb.IPv4) {
		t.Error("the fence is back")
	}
}

func TestSuccessorAdoptsTheTables(t *testing.T) {
	l := newLab(t)
	first, err := nft.OpenIn(slog.New(slog.DiscardHandler), l.node.FD())
	if err != nil {
		t.Fatal(err)
	}
	if s, fences := first.Leftover(); len(s.VIPs) != 0 || len(fences) != 0 {
		t.Errorf("left over from nobody: %v, %v", s, fences)
	}
	s := owning("eth0", "eth1")
	l.apply(first, s)
	l.grant(first, "eth0")
	clean := l.ruleset()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := l.open()
	left, fences := second.Leftover()
	if diff := cmp.Diff(s, left, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}), cmpopts.SortSlices(func(a, b lb.Port) bool { return a.Number < b.Number })); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(fences, []string{"eth0"}) {
		t.Errorf("fences %v", fences)
	}
	if lost, err := second.Renew([]string{"eth0"}); err != nil || lost != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
	if diff := cmp.Diff(clean, l.ruleset()); diff != "" {
		t.Error(diff)
	}
	l.apply(second, owning("eth0"))
	if !l.answers(vip, lb.IPv6) {
		t.Error("not answered")
	}
	unnoticed(t, second)
	if err := second.Delete(); err != nil {
		t.Fatal(err)
	}
	if out := l.node.Run("nft", "list", "ruleset"); out != "" {
		t.Error(out)
	}
	if err := second.Delete(); err != nil {
		t.Error(err)
	}
}

// Another version may have had sets and chains of another kind.
func TestTablesOfAnotherVersionAreReplaced(t *testing.T) {
	l := newLab(t)
	l.node.Run("nft", `
		table arp fairlead {
			set vips { type ipv4_addr; elements = { 192.0.2.100 } }
			set alive { type iface_index; }
			chain input { type filter hook input priority 7; arp operation request drop; }
		}
		table inet fairlead {
			set vips4 { type ipv4_addr; elements = { 192.0.2.100, 192.0.2.101 } }
			set gone { type mark; }
			map odd { type ifname : verdict; }
		}`)
	table := l.open()
	left, fences := table.Leftover()
	if len(left.VIPs) != 2 || left.VIPs[vip[lb.IPv4]].Unclaimed || len(fences) != 0 {
		t.Errorf("left over: %v, %v", left, fences)
	}
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	for _, f := range lb.Families {
		if !l.answers(vip, f) || l.answers(other, f) {
			t.Errorf("%v: not as it should be", f)
		}
	}
	if out := l.node.Run("nft", "list", "ruleset"); strings.Contains(out, "gone") || strings.Contains(out, "odd") {
		t.Error(out)
	}
}
