package cloudsigma

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	simulated "fairlead.io/sandbox/cloudsigma"
)

// fakePods are pods of an API server with kubelets, which end pods on living nodes.
type fakePods struct {
	w     *world
	pods  map[string]*Pod
	gone  map[string]time.Time
	made  int
	calls []string
	fail  error
}

func (f *fakePods) Get(_ context.Context, name string) (*Pod, error) {
	p := f.pods[name]
	if p != nil && p.Leaving && f.lives(p.Node) && !time.Now().Before(f.gone[name]) {
		delete(f.pods, name)
		p = nil
	}
	if p == nil {
		return nil, nil
	}
	copied := *p
	return &copied, nil
}

func (f *fakePods) lives(node string) bool {
	for _, n := range f.w.nodes {
		if n.Name == node {
			return n.Ready
		}
	}
	return false
}

func (f *fakePods) Create(_ context.Context, p *Pod) error {
	if f.fail != nil {
		return f.fail
	}
	if f.pods[p.Name] == nil {
		f.made++
		made := *p
		made.UID = types.UID(fmt.Sprint(f.made))
		f.pods[p.Name] = &made
		f.calls = append(f.calls, "create "+p.Name+" on "+p.Node)
	}
	return nil
}

func (f *fakePods) Delete(_ context.Context, p *Pod, grace time.Duration) error {
	f.calls = append(f.calls, fmt.Sprintf("delete %s on %s, %v", p.Name, p.Node, grace))
	if have := f.pods[p.Name]; have == nil || have.UID != p.UID {
		return nil
	}
	if grace == 0 {
		delete(f.pods, p.Name)
		return nil
	}
	f.pods[p.Name].Leaving, f.gone[p.Name] = true, time.Now().Add(grace)
	return nil
}

func (f *fakePods) Run(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return nil
}

// did returns what was done since the last time.
func (f *fakePods) did() string {
	out := strings.Join(f.calls, "\n")
	f.calls = nil
	return out
}

// playPods is play with pods in place of agents.
func playPods(t *testing.T, nodes, addresses int, f func(t *testing.T, w *world, pods *fakePods)) {
	t.Helper()
	play(t, simulated.Knobs{}, nodes, addresses, func(t *testing.T, w *world) {
		pods := &fakePods{w: w, pods: map[string]*Pod{}, gone: map[string]time.Time{}}
		w.pods = pods
		for i := range w.nodes {
			w.nodes[i].Agent = false
		}
		w.restart()
		f(t, w, pods)
	})
}

const webPod = "lb-ip-192-0-2-10"

// Nodes without agents get one pod for each address, which follows it, is made again,
// and goes with it.
func TestPods(t *testing.T) {
	playPods(t, 2, 1, func(t *testing.T, w *world, pods *fakePods) {
		web := w.create("web")
		w.settle()
		check := func(what, want string) {
			t.Helper()
			w.settle()
			if got := pods.did(); got != want {
				t.Errorf("%s: did\n%s\nwant\n%s", what, got, want)
			}
		}
		check("created", "create "+webPod+" on worker-1")
		if published(web) != "192.0.2.10" || placed(web) != "192.0.2.10: worker-1" {
			t.Errorf("%s on %s", published(web), placed(web))
		}
		w.restart()
		check("restarted", "")
		delete(pods.pods, webPod)
		check("gone", "create "+webPod+" on worker-1")
		pods.pods[webPod].Ended = true
		check("failed", "delete "+webPod+" on worker-1, 1s\ncreate "+webPod+" on worker-1")
		pods.pods[webPod].Image = "praqma/network-multitool:alpine-extra"
		check("the original's", "delete "+webPod+" on worker-1, 1s\ncreate "+webPod+" on worker-1")
		pods.pods[webPod].Node = "worker-2"
		check("on another node", "delete "+webPod+" on worker-2, 1s\ncreate "+webPod+" on worker-1")
		w.node("worker-1").Receives = false
		check("excluded", "delete "+webPod+" on worker-1, 1s\ncreate "+webPod+" on worker-2")
		w.node("worker-1").Receives = true
		pods.pods[webPod].Leaving = true
		w.node("worker-2").Ready = false
		check("dead", "delete "+webPod+" on worker-2, 0s\ncreate "+webPod+" on worker-1")
		w.want("moved", w.claimed("192.0.2.10", webTag, "worker-1")...)
		w.node("worker-1").Ready = false
		check("nobody can carry it", "")
		w.node("worker-1").Ready = true
		w.delete(web)
		check("deleted", "delete "+webPod+" on worker-1, 1s")
		w.want("deleted")
	})
}

// Where the nodes' own cards may have any address, the controller chooses one node,
// and stays with it: the one that it had chosen, or whose pod the original has left.
func TestPodsOnManualNodes(t *testing.T) {
	playPods(t, 0, 2, func(t *testing.T, w *world, pods *fakePods) {
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			w.addNode(name, "manual")
			w.node(name).Agent = false
		}
		pods.pods[webPod] = &Pod{Name: webPod, UID: "old", Node: "worker-2", Image: "praqma/network-multitool:alpine-extra"}
		web := w.create("web")
		w.settle()
		w.want("no card", w.claimed("192.0.2.10", webTag, "")...)
		if placed(web) != "192.0.2.10: worker-2" {
			t.Errorf("placed on %s", placed(web))
		}
		delete(pods.pods, webPod)
		w.restart()
		w.settle()
		if placed(web) != "192.0.2.10: worker-2" || pods.pods[webPod].Node != "worker-2" {
			t.Errorf("after a restart on %s", placed(web))
		}
		w.node("worker-2").Ready = false
		w.settle()
		if placed(web) == "192.0.2.10: worker-2" || pods.pods[webPod].Node == "worker-2" || w.toldOf(AddressMoved) == "" {
			t.Errorf("a dead node: on %s, %v", placed(web), pods.did())
		}
		before := placed(web)
		w.node("worker-2").Ready = true
		w.settle()
		if placed(web) != before {
			t.Errorf("it went back, from %s to %s", before, placed(web))
		}
	})
}

// Nothing is published before there is a pod.
func TestPodRefused(t *testing.T) {
	playPods(t, 1, 1, func(t *testing.T, w *world, pods *fakePods) {
		pods.fail = fmt.Errorf("create pod kube-system/%s: forbidden", webPod)
		web := w.create("web")
		for range 3 {
			_, _ = w.look(web)
		}
		if published(web) != "" || !slices.ContainsFunc(web.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, "forbidden") }) {
			t.Errorf("%q, %v", published(web), web.Status.Conditions)
		}
		pods.fail = nil
		w.settle()
		if published(web) != "192.0.2.10" {
			t.Error(published(web))
		}
	})
}

func TestChangeOf(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.10")
	want := &Pod{Name: webPod, Address: address, Node: "a", Image: "ours"}
	with := func(f func(*Pod)) *Pod {
		p := *want
		p.UID, p.Service = "1", "10.96.0.7"
		f(&p)
		return &p
	}
	for name, test := range map[string]struct {
		have, want *Pod
		dead       bool
		change     podChange
	}{
		"none, and none wanted": {nil, nil, false, podStays},
		"none":                  {nil, want, false, podMade},
		"as it should be":       {with(func(*Pod) {}), want, false, podStays},
		"of another Service":    {with(func(p *Pod) { p.Service = "" }), want, false, podStays},
		"not wanted":            {want, nil, false, podGoes},
		"not wanted, dead":      {want, nil, true, podKilled},
		"ended":                 {with(func(p *Pod) { p.Ended = true }), want, false, podGoes},
		"another image":         {with(func(p *Pod) { p.Image = "theirs" }), want, false, podGoes},
		"another interface":     {with(func(p *Pod) { p.Interface = "ens4" }), want, false, podGoes},
		"another address":       {with(func(p *Pod) { p.Address = netip.Addr{} }), want, false, podGoes},
		"another node":          {with(func(p *Pod) { p.Node = "b" }), want, false, podGoes},
		"another node, dead":    {with(func(p *Pod) { p.Node = "b" }), want, true, podKilled},
		"leaving":               {with(func(p *Pod) { p.Leaving = true }), want, false, podAwaited},
		"leaving, dead":         {with(func(p *Pod) { p.Leaving = true }), want, true, podKilled},
		"on a dead node":        {with(func(*Pod) {}), want, true, podStays},
	} {
		if got := changeOf(test.have, test.want, test.dead); got != test.change {
			t.Errorf("%s: %d, want %d", name, got, test.change)
		}
	}
}
