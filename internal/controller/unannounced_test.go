package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// reporting is an agent that announces some addresses and reports others that nobody
// announces.
func reporting(node string, reason lb.Code, announces, silent []string) v1alpha1.Agent {
	a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: node}}
	a.Status.Conditions = []metav1.Condition{{Type: agentReady, Status: metav1.ConditionTrue, Reason: string(reason)}}
	a.Status.Announced = int32(len(announces))
	for _, x := range announces {
		a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: x, Services: []string{"shop/" + x}})
	}
	for _, x := range silent {
		a.Status.Unannounced = append(a.Status.Unannounced, v1alpha1.Unannounced{Address: x, Services: []string{"shop/" + x}, Reason: string(lb.AddressConflict), Message: "Used by another host."})
	}
	return a
}

func TestFindSilence(t *testing.T) {
	ready, gone := lb.AgentReady, map[string]lb.Reason{"b": lb.AgentLost.With("a")}
	cut := reporting("a", ready, []string{"1"}, nil)
	cut.Status.Announced = 700
	stranger := reporting("a", ready, nil, []string{"2"})
	stranger.Status.Unannounced[0].Reason = "Made up"
	for name, test := range map[string]struct {
		agents []v1alpha1.Agent
		lost   map[string]lb.Reason
		want   string
	}{
		"all is well":             {[]v1alpha1.Agent{reporting("a", ready, []string{"1"}, nil)}, nil, "map[]"},
		"reported":                {[]v1alpha1.Agent{reporting("a", ready, []string{"1"}, []string{"2"})}, nil, "map[2:AddressConflict]"},
		"not a code of ours":      {[]v1alpha1.Agent{stranger}, nil, "map[2:NotAnnounced]"},
		"announced by another":    {[]v1alpha1.Agent{reporting("a", ready, nil, []string{"2"}), reporting("b", ready, []string{"2"}, nil)}, nil, "map[]"},
		"nobody took it":          {[]v1alpha1.Agent{reporting("a", ready, []string{"1"}, nil), reporting("b", ready, []string{"2"}, nil)}, gone, "map[2:AnnouncerLost]"},
		"its reporter is lost":    {[]v1alpha1.Agent{reporting("a", ready, nil, nil), reporting("b", ready, nil, []string{"2"})}, gone, "map[2:AddressConflict]"},
		"taken over":              {[]v1alpha1.Agent{reporting("a", ready, []string{"1", "2"}, nil), reporting("b", ready, []string{"2"}, nil)}, gone, "map[]"},
		"perhaps, it is not said": {[]v1alpha1.Agent{cut, reporting("b", ready, []string{"2"}, nil)}, gone, "map[]"},
		"no agent is left":        {[]v1alpha1.Agent{reporting("b", ready, []string{"2"}, nil)}, gone, "map[:NoAgent]"},
		"all have left":           {[]v1alpha1.Agent{reporting("a", lb.AgentLeaving, nil, nil), reporting("b", lb.AgentIsolated, nil, nil)}, nil, "map[:NoAgent]"},
		"there never was one":     {nil, nil, "map[:NoAgent]"},
	} {
		got := map[string]lb.Code{}
		for address, s := range findSilence(test.agents, test.lost, lb.Common) {
			got[address] = s.reason.Code
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// Only what lasts is told, once, and it is over at once.
func TestSilencesLast(t *testing.T) {
	start := time.Unix(1000, 0)
	one := netip.MustParseAddr("192.0.2.1")
	found := func(r lb.Reason) map[string]silence {
		return map[string]silence{one.String(): {r, []string{"shop/web"}, silenceWait}}
	}
	nobody := map[string]silence{everyAddress: {lb.NoAgent.With("gone"), nil, silenceWait}}
	conflict, lost := lb.Rebuilt(lb.AddressConflict, "Another host.", false), lb.AnnouncerLost.With(one, "a")
	had := &lb.Condition{Reason: lost}
	var s silences
	for i, step := range []struct {
		at      time.Duration
		found   map[string]silence
		have    *lb.Condition
		changed string
		next    time.Duration
		want    lb.Code
	}{
		{0, found(lost), nil, "[]", silenceWait, ""},
		{time.Second, nil, nil, "[]", 0, ""}, // failover
		{2 * time.Second, found(lost), had, "[]", silenceWait, lb.AnnouncerLost},
		{7 * time.Second, found(lost), nil, "[shop/web]", 0, lb.AnnouncerLost},
		{8 * time.Second, found(lost), nil, "[]", 0, lb.AnnouncerLost},
		{9 * time.Second, found(conflict), nil, "[]", silenceWait, lb.AnnouncerLost}, // it may not last
		{14 * time.Second, found(conflict), nil, "[shop/web]", 0, lb.AddressConflict},
		{15 * time.Second, nobody, nil, "[]", silenceWait, lb.AddressConflict}, // not better
		{20 * time.Second, nobody, nil, "[shop/web] all", 0, lb.NoAgent},
		{21 * time.Second, nil, nil, "[]", silenceWait, lb.NoAgent}, // the first agent is back
		{26 * time.Second, nil, nil, "[] all", 0, ""},
		{27 * time.Second, found(lost), nil, "[]", silenceWait, ""},
	} {
		changed, everyone, next := s.update(step.found, start.Add(step.at))
		got := fmt.Sprint(slices.Concat([]string{}, changed))
		if everyone {
			got += " all"
		}
		code := lb.Code("")
		if r := s.of([]netip.Addr{one}, step.have); r != nil {
			code = r.Code
		}
		if got != step.changed || next != step.next || code != step.want {
			t.Errorf("step %d: %s, again after %v, %q is told; want %s, %v, %q", i, got, next, code, step.changed, step.next, step.want)
		}
	}
	if r := s.of(nil, had); r != nil {
		t.Errorf("without an address: %v", r)
	}
}

// An agent is lost if another one that is alive says so, or its kubelet is silent.
func TestLostAgents(t *testing.T) {
	agent := func(name string, lost ...string) v1alpha1.Agent {
		a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		a.Status.Lost = lost
		return a
	}
	silent := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	wrote := func(at time.Duration, status metav1.ConditionStatus) v1alpha1.Agent {
		a := agent("b")
		a.Status.Conditions = []metav1.Condition{{Type: agentReady, Status: status, LastTransitionTime: metav1.NewTime(silent.Add(at))}}
		return a
	}
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(silent)}}
		return n
	}
	yes, no, unknown := corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for name, test := range map[string]struct {
		agents []v1alpha1.Agent
		a, b   corev1.ConditionStatus // of the Nodes
		want   string
	}{
		"all are there":             {[]v1alpha1.Agent{agent("a"), agent("b")}, yes, yes, "map[]"},
		"one is missed":             {[]v1alpha1.Agent{agent("a", "b"), agent("b")}, yes, yes, "map[b:AgentLost]"},
		"NotReady, but heard of":    {[]v1alpha1.Agent{agent("a"), agent("b")}, yes, no, "map[]"},
		"its kubelet is silent":     {[]v1alpha1.Agent{agent("a"), agent("b")}, yes, unknown, "map[b:AgentUnheard]"},
		"it was Ready before":       {[]v1alpha1.Agent{agent("a"), wrote(-time.Second, metav1.ConditionTrue)}, yes, unknown, "map[b:AgentUnheard]"},
		"it is marked":              {[]v1alpha1.Agent{agent("a"), wrote(time.Second, metav1.ConditionUnknown)}, yes, unknown, "map[b:AgentUnheard]"},
		"it has objected":           {[]v1alpha1.Agent{agent("a"), wrote(time.Second, metav1.ConditionTrue)}, yes, unknown, "map[]"},
		"it has objected, and died": {[]v1alpha1.Agent{agent("a", "b"), wrote(time.Second, metav1.ConditionTrue)}, yes, unknown, "map[b:AgentLost]"},
		"both, one is silent":       {[]v1alpha1.Agent{agent("a", "b"), agent("b", "a")}, yes, unknown, "map[b:AgentLost]"},
		"both, nobody knows":        {[]v1alpha1.Agent{agent("a", "b"), agent("b", "a")}, yes, yes, "map[]"},
		"last words of one that is": {[]v1alpha1.Agent{agent("a"), agent("b", "a")}, yes, unknown, "map[b:AgentUnheard]"},
		"missed, without an object": {[]v1alpha1.Agent{agent("a", "c")}, yes, yes, "map[]"},
		"its Node is gone":          {[]v1alpha1.Agent{agent("c")}, yes, yes, "map[c:AgentUnheard]"},
	} {
		got := map[string]lb.Code{}
		for name, r := range lostAgents(test.agents, []corev1.Node{node("a", test.a), node("b", test.b)}) {
			got[name] = r.Code
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// A mark is made once, keeps what the agent said, and is taken back.
func TestMarkedAgent(t *testing.T) {
	a := reporting("a", lb.AgentConflict, []string{"192.0.2.1", "192.0.2.2"}, nil)
	why, other := lb.AgentLost.With("b"), lb.AgentLost.With("c")
	now := time.Unix(1000, 0)
	if marked(&a, nil, now) != nil {
		t.Error("marked, and is not lost")
	}
	s := marked(&a, &why, now)
	if s == nil || s.Announced != 0 || s.Conditions[0].Status != metav1.ConditionUnknown || s.Conditions[0].Reason != string(lb.AgentLost) {
		t.Fatalf("marked as %+v", s)
	}
	a.Status.Announced, a.Status.Conditions = s.Announced, s.Conditions
	if again := marked(&a, &other, now); again != nil {
		t.Errorf("marked again: %+v", again)
	}
	unheard := lb.AgentUnheard.With()
	if s = marked(&a, &unheard, now); s == nil || s.Conditions[1].Reason != string(lb.AgentConflict) {
		t.Fatalf("for another reason: %+v", s)
	}
	a.Status.Conditions = s.Conditions
	if s = marked(&a, nil, now); s == nil || s.Announced != 2 || len(s.Conditions) != 1 || s.Conditions[0].Reason != string(lb.AgentConflict) || s.Conditions[0].Type != agentReady {
		t.Errorf("taken back: %+v", s)
	}
}
