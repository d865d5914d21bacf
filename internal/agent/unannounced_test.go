package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Which addresses are reported, and when.
func TestUnannounced(t *testing.T) {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	ago := func(d time.Duration, r lb.Reason, own bool) silence {
		return silence{reason: r, since: noon.Add(-d), own: own}
	}
	noEndpoint, noNode := lb.NoServingEndpoint.With(one), lb.NotAnnounced.With(one, "There is no node.")
	conflict := lb.AddressConflict.With(one, "eth0", "a", stranger)
	for name, c := range map[string]struct {
		silent map[netip.Addr]silence
		others bool // another agent is chosen
		want   string
		next   time.Duration // from now
	}{
		"all is well":              {want: "[]"},
		"pods are replaced":        {silent: map[netip.Addr]silence{one: ago(29*time.Second, noEndpoint, false)}, want: "[]", next: time.Second},
		"no endpoint for long":     {silent: map[netip.Addr]silence{one: ago(30*time.Second, noEndpoint, false)}, want: "[192.0.2.1]"},
		"an agent restarts":        {silent: map[netip.Addr]silence{one: ago(time.Second, noNode, false)}, want: "[]", next: 2 * time.Second},
		"no node":                  {silent: map[netip.Addr]silence{one: ago(3*time.Second, noNode, false)}, want: "[192.0.2.1]"},
		"another agent reports it": {silent: map[netip.Addr]silence{one: ago(time.Hour, noNode, false), two: ago(0, noNode, false)}, others: true, want: "[]"},
		"a conflict, at once, by the node that has it": {silent: map[netip.Addr]silence{one: ago(0, conflict, true)}, others: true, want: "[192.0.2.1]"},
		"in order, and the next": {silent: map[netip.Addr]silence{
			two: ago(time.Hour, noNode, false), one: ago(time.Hour, noNode, false),
			netip.MustParseAddr("192.0.2.9"): ago(25*time.Second, noEndpoint, false), netip.MustParseAddr("192.0.2.8"): ago(0, noEndpoint, false),
		}, want: "[192.0.2.1 2001:db8::1]", next: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			due, next := unannounced(c.silent, func(netip.Addr) bool { return !c.others }, noon)
			same(t, "reported", due, c.want)
			want := time.Time{}
			if c.next > 0 {
				want = noon.Add(c.next)
			}
			if !next.Equal(want) {
				t.Errorf("looks again at %v, want %v", next, want)
			}
		})
	}
	many := map[netip.Addr]silence{}
	for i := range 2 * maxUnannounced {
		many[netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})] = ago(time.Hour, noNode, false)
	}
	if due, _ := unannounced(many, func(netip.Addr) bool { return true }, noon); len(due) != maxUnannounced || due[0] != netip.MustParseAddr("198.18.0.0") {
		t.Errorf("%d are reported, from %v", len(due), due[0])
	}
}

// The reason is one that users find in the reference, and names each node's obstacle.
func TestSilenceOf(t *testing.T) {
	refusals := []elect.Refusal{{Node: "a", Why: elect.NoInterface}, {Node: "b", Why: elect.NotAlive}}
	for name, c := range map[string]struct {
		outcome elect.Outcome
		code    lb.Code
		text    string
	}{
		"kept":           {elect.Outcome{Owner: "a", Why: elect.Kept}, "", ""},
		"by hash":        {elect.Outcome{Owner: "a", Why: elect.ByHash}, "", ""},
		"no endpoint":    {elect.Outcome{Why: elect.NoEndpoint}, lb.NoServingEndpoint, "no endpoint of the Service serves"},
		"no node":        {elect.Outcome{Why: elect.NoNode, Refusals: refusals}, lb.NotAnnounced, "a has no interface for it that is up"},
		"not advertised": {elect.Outcome{Why: elect.NotAdvertised}, lb.NotAnnounced, "no advertisement"},
		"unshareable":    {elect.Outcome{Why: elect.Unshareable}, lb.NotAnnounced, "serviceSelectors"},
	} {
		reason, silent := silenceOf(vip, c.outcome)
		if silent != (c.code != "") || reason.Code != c.code || !strings.Contains(reason.Text, c.text) {
			t.Errorf("%s: %t %v", name, silent, reason)
		}
	}
}

// Agents agree who reports, and few change when one goes.
func TestChosen(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("worker-%d", i))
	}
	first := func(names []string, subject string, n int) (out []string) {
		for _, name := range names {
			if chosen(name, subject, names, n) {
				out = append(out, name)
			}
		}
		return out
	}
	load := map[string]int{}
	for i := range 2000 {
		subject := fmt.Sprintf("192.0.2.%d", i)
		three := first(names, subject, 3)
		if len(three) != 3 {
			t.Fatalf("%d report %s, want 3", len(three), subject)
		}
		load[three[0]]++
		rest := slices.DeleteFunc(slices.Clone(names), func(x string) bool { return x == three[1] })
		now := first(rest, subject, 3)
		if len(now) != 3 || !slices.Contains(now, three[0]) || !slices.Contains(now, three[2]) {
			t.Fatalf("%v became %v when %s went", three, now, three[1])
		}
	}
	for name, n := range load {
		if n > 40 {
			t.Errorf("%s reports %d of 2000", name, n)
		}
	}
	if chosen("x", "y", nil, 3) || chosen("x", "y", names, 3) {
		t.Error("one that is not alive, or leaves, was chosen")
	}
}
