package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/internal/agent/layer2"
	"fairlead.io/internal/agent/layer3"
	"fairlead.io/internal/cloud"
	sigmaclient "fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/serve"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/rig"
)

// monitoredAgent is the agent of a node: the daemon's own loop with a network in memory,
// with the rights of the chart, and metrics as a real one has.
type monitoredAgent struct {
	dead    atomic.Bool // it reaches nobody
	routers *agentsim.Routers
	stop    func()
}

// RoundTrip makes requests fail if the agent is dead.
func (a *monitoredAgent) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if a.dead.Load() {
			return nil, errors.New("the node is dead")
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// startAgent runs the agent of a node until it is stopped. It serves metrics on a port, and
// others with them.
func startAgent(t *testing.T, admin *rest.Config, gossip *agentsim.Gossip, node string, addr netip.Addr, port uint16, others ...prometheus.Gatherer) *monitoredAgent {
	t.Helper()
	a := &monitoredAgent{routers: agentsim.NewRouters()}
	registry := prometheus.NewRegistry()
	registry.MustRegister(serve.BuildInfo(agentsim.Version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// Its network is in memory, so it sends no frames, but it has the counter.
	layer2.New(t.Context(), layer2.Options{Log: slog.New(slog.DiscardHandler), Registry: registry})
	registry.MustRegister(layer3.NewCollector(a.routers.Statuses))
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":fairlead-agent", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	metrics, err := serve.Metrics(fmt.Sprintf("0.0.0.0:%d", port), config, append(prometheus.Gatherers{registry}, others...), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.Wrap(a.wrap)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := agentsim.Run(ctx, agentsim.Options{REST: config, Node: node, Addr: addr, Gossip: gossip, Namespace: namespace, MetalLBNamespace: rig.MetalLBNamespace, Registry: registry, Routers: a.routers}); err != nil {
			t.Errorf("agent of %s: %v", node, err)
		}
	})
	running.Go(func() {
		if err := metrics.Start(ctx); err != nil {
			t.Errorf("metrics of %s: %v", node, err)
		}
	})
	a.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(a.stop)
	return a
}

// askCloudSigma returns a function that asks a simulated CloudSigma something, and the
// metrics of the client.
func askCloudSigma(t *testing.T) (ask func(), metrics prometheus.Gatherer) {
	t.Helper()
	simulator := cloudsigma.New(cloudsigma.Options{})
	t.Cleanup(simulator.Close)
	server := httptest.NewServer(simulator)
	t.Cleanup(server.Close)
	token, err := cloud.NewToken(simulator.Token())
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	client, err := sigmaclient.New(sigmaclient.Options{Region: "zrh", Endpoint: server.URL, Token: token, HTTP: &http.Transport{DisableKeepAlives: true}, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := client.IPs.List(t.Context()); err != nil {
			t.Error(err)
		}
	}, registry
}
