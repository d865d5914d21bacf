package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/sandbox"
)

const (
	// simulated is how many agents there are.
	simulated = 200
	// reporters is the least number of writes after which the API server knows of a
	// death although two of those who report it may die as well.
	reporters = 3
	hollow    = "hollow-agent/"
)

// deaths: what the API server has to do when one of many agents dies. The agents are
// the daemon's own loop and reporter, without nodes and with gossip in memory.
func deaths(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{Audit: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	gossip, stop, err := c.hollowAgents(ctx)
	defer stop()
	if err != nil {
		return nil, err
	}
	if _, err := c.agentLoad(ctx); err != nil {
		return nil, err
	}
	var writes, events []float64
	for i := range s.rounds {
		before, err := c.agentLoad(ctx)
		if err != nil {
			return nil, err
		}
		gossip.Kill(nodeName(i))
		after, err := c.agentLoad(ctx)
		if err != nil {
			return nil, err
		}
		writes, events = append(writes, after.writes-before.writes), append(events, after.events-before.events)
		progress("  a death: %.0f writes, %.0f watch events", after.writes-before.writes, after.events-before.events)
	}
	of := fmt.Sprintf("one of %d agents dies, of %d times ", simulated, s.rounds)
	return []Row{
		info(of+"the most writes of Agents", quantile(writes, 1), "").atMost(reporters),
		info(of+"the most writes of Agents, to the least", quantile(writes, 1)/reporters, "×").atMost(1),
		// Some of the times bookmarks come on top: one a minute for each watch.
		info(of+"the median of watch events of Agents", median(events), "").atMost(reporters),
	}, nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// hollowAgents starts agents, and waits until each has reported.
func (c *cluster) hollowAgents(ctx context.Context) (gossip *agentsim.Gossip, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	gossip, stop = agentsim.NewGossip(), func() {
		cancel(nil)
		running.Wait()
	}
	first := netip.MustParseAddr("198.51.0.0")
	addrs := make([]netip.Addr, simulated)
	for i := range addrs {
		first = first.Next()
		addrs[i] = first
	}
	err = concurrently(ctx, simulated, inFlight, func(i int) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		if err := c.client.Create(ctx, n); err != nil {
			return err
		}
		n.Status = corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addrs[i].String()}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
		return c.client.Status().Update(ctx, n)
	})
	if err != nil {
		return gossip, stop, err
	}
	for i := range simulated {
		config := rest.CopyConfig(c.api.RESTConfig())
		config.UserAgent = hollow + "bench"
		running.Go(func() {
			if err := agentsim.Run(ctx, agentsim.Options{REST: config, Node: nodeName(i), Addr: addrs[i], Gossip: gossip}); err != nil {
				cancel(fmt.Errorf("agent of %s: %w", nodeName(i), err))
			}
		})
	}
	return gossip, stop, poll(ctx, "all agents have reported", time.Second, func() (bool, error) {
		var list v1alpha1.AgentList
		if err := c.client.List(ctx, &list); err != nil {
			return false, err
		}
		ready := 0
		for i := range list.Items {
			if len(list.Items[i].Status.Conditions) > 0 {
				ready++
			}
		}
		return ready == simulated, nil
	})
}

// load is what was asked of the API server because of Agents.
type load struct{ writes, events float64 }

// agentLoad waits until nothing happens for a while, and returns the load until then.
func (c *cluster) agentLoad(ctx context.Context) (now load, err error) {
	const silence = 5 * time.Second
	since := time.Now()
	return now, poll(ctx, "agents have nothing more to write", time.Second, func() (bool, error) {
		before := now
		all, err := c.api.WriteCounts()
		if err != nil {
			return false, err
		}
		now = load{}
		for w, n := range all {
			if w.Resource == "agents" && strings.HasPrefix(w.UserAgent, hollow) {
				now.writes += float64(n)
			}
		}
		if now.events, err = c.watchEvents(ctx); err != nil {
			return false, err
		}
		if now != before {
			since = time.Now()
		}
		return time.Since(since) >= silence, nil
	})
}

// watchEvents counts the events about Agents that the API server has sent to
// watchers.
func (c *cluster) watchEvents(ctx context.Context) (n float64, err error) {
	raw, err := c.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "apiserver_watch_events_total{") || !strings.Contains(line, `"fairlead.io"`) || !strings.Contains(strings.ToLower(line), `"agent`) {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		n += value
	}
	return n, nil
}
