package soak

import (
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/invariant"
)

// Only elements of our own tables are counted, of sets and of maps.
func TestCountElements(t *testing.T) {
	const ruleset = `{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "fairlead", "handle": 1}},
		{"set": {"family": "inet", "name": "vips4", "table": "fairlead", "type": "ipv4_addr", "handle": 2, "elem": ["192.0.2.1", "192.0.2.2"]}},
		{"set": {"family": "inet", "name": "empty", "table": "fairlead", "type": "ipv4_addr", "handle": 3}},
		{"map": {"family": "netdev", "name": "tuples4-eth0", "table": "fairlead-carried", "type": "ipv4_addr", "map": "ipv4_addr", "handle": 4, "elem": [["192.0.2.1", "192.0.2.9"]]}},
		{"set": {"family": "ip", "name": "cluster-ips", "table": "kube-proxy", "type": "ipv4_addr", "handle": 5, "elem": ["192.0.2.1"]}}]}`
	if n, err := countElements([]byte(ruleset)); err != nil || n != 3 {
		t.Errorf("%v elements (%v)", n, err)
	}
	if _, err := countElements([]byte("none")); err == nil {
		t.Error("what is no ruleset has elements")
	}
}

// The report has a row for each fault, with the worst of all times, and counts breaches.
func TestReport(t *testing.T) {
	r := &Report{Seed: 42, Took: time.Minute}
	cut, kill := Choice{Kind: Kind{Name: "cable cut"}}, Choice{Kind: Kind{Name: "agent killed"}}
	r.happened(Step{Choices: []Choice{cut}}, invariant.Worst{Silence: 300 * time.Millisecond, Outage: time.Second}, 2)
	r.happened(Step{Choices: []Choice{cut}}, invariant.Worst{Silence: 500 * time.Millisecond}, 1)
	r.happened(Step{Choices: []Choice{cut, kill}}, invariant.Worst{}, 0)
	r.Breaches = []invariant.Breach{{Rule: invariant.Lost}, {Rule: invariant.Lost}}
	r.Trends = []invariant.Trend{{What: memory + "agent 1 on node1", Samples: 9, First: 50, Last: 51}, {What: memory + "agent 2 on node1", Samples: 6}, {What: memory + "agent 3 on node2", Samples: 6, Grown: true}}
	var out strings.Builder
	r.Print(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"seed 42, 1m0s of faults", "cable cut 2 1000 ms 500 ms 0 ms 3", together + " 1 0 ms", invariant.Lost + " 2", invariant.TwoHold + " 0",
		"agent 1 on node1 9 50 51", "agent 3 on node2"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if strings.Contains(text, "agent 2") {
		t.Errorf("a short trend is told:\n%s", &out)
	}
	if r.Happened() != 3 {
		t.Errorf("%d faults happened", r.Happened())
	}
}
