package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
)

func TestAnnouncers(t *testing.T) {
	now := time.Now()
	agent := func(name string, since time.Duration, addresses ...string) v1alpha1.Agent {
		a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, x := range addresses {
			a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: x, Services: []string{"shop/web"}, Since: metav1.NewTime(now.Add(since))})
		}
		return a
	}
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	const x, y = "192.0.2.7", "fd00::7"
	up, down := corev1.ConditionTrue, corev1.ConditionUnknown
	for name, test := range map[string]struct {
		agents []v1alpha1.Agent
		nodes  []corev1.Node
		want   map[string]string
	}{
		"nobody":                          {want: map[string]string{x: ""}},
		"each address by itself":          {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, y)}, want: map[string]string{x: "a", y: "b"}},
		"who has it last":                 {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, x)}, want: map[string]string{x: "b"}},
		"the first by name":               {agents: []v1alpha1.Agent{agent("b", 0, x), agent("a", 0, x)}, want: map[string]string{x: "a"}},
		"not who is lost":                 {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, x)}, nodes: []corev1.Node{node("a", up), node("b", down)}, want: map[string]string{x: "a"}},
		"not who is no node any more":     {agents: []v1alpha1.Agent{agent("b", time.Minute, x), agent("a", 0, x)}, nodes: []corev1.Node{node("a", up)}, want: map[string]string{x: "a"}},
		"who is lost, if nobody else":     {agents: []v1alpha1.Agent{agent("b", 0, x)}, nodes: []corev1.Node{node("b", down)}, want: map[string]string{x: "b"}},
		"of those who are lost, the last": {agents: []v1alpha1.Agent{agent("b", 0, x), agent("a", time.Minute, x)}, nodes: []corev1.Node{node("a", down), node("b", down)}, want: map[string]string{x: "a"}},
	} {
		got := announcers(test.agents, test.nodes)
		for address, want := range test.want {
			if got[address].node != want {
				t.Errorf("%s: %s is at %q, want %q", name, address, got[address].node, want)
			}
		}
	}
}
