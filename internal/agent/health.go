package agent

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// proxyHealth asks kube-proxy whether it programs the node's Services: a node
// on which it does not must not attract traffic.
type proxyHealth struct {
	url     string
	changed chan<- struct{}
	seen    atomic.Bool // it has answered once
	bad     atomic.Bool // it has answered once, and does not any more
}

const (
	proxyPeriod  = 500 * time.Millisecond
	proxyTimeout = 400 * time.Millisecond
	// proxyPatience is how many answers in a row may be missing: kube-proxy is
	// restarted in upgrades, and its rules stay meanwhile.
	proxyPatience = 6
)

// healthy is true where kube-proxy was never heard of: something else forwards.
func (p *proxyHealth) healthy() bool { return !p.bad.Load() }

// state is what the Agent object says of kube-proxy.
func (p *proxyHealth) state() string {
	switch {
	case p.url == "":
		return "Absent"
	case !p.seen.Load():
		return "Never"
	case p.bad.Load():
		return "Unhealthy"
	}
	return "Healthy"
}

// watch asks until ctx ends.
func (p *proxyHealth) watch(ctx context.Context) {
	if p.url == "" {
		return
	}
	client := &http.Client{Timeout: proxyTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(proxyPeriod)
	defer tick.Stop()
	for misses := 0; ; {
		if p.ask(ctx, client) {
			p.seen.Store(true)
			misses = 0
		} else {
			misses++
		}
		if bad := p.seen.Load() && misses >= proxyPatience; bad != p.bad.Swap(bad) {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *proxyHealth) ask(ctx context.Context, client *http.Client) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// apiHealth asks the API server for a sign of life, but only while somebody
// wants to know: an agent that has lost its peers.
type apiHealth struct {
	client  *http.Client
	url     string
	wanted  atomic.Bool
	changed chan<- struct{}
	away    atomic.Bool
}

const (
	apiPeriod  = 200 * time.Millisecond
	apiTimeout = 400 * time.Millisecond
)

func newAPIHealth(c *rest.Config, changed chan<- struct{}) (*apiHealth, error) {
	short := rest.CopyConfig(c)
	short.Timeout = apiTimeout
	client, err := rest.HTTPClientFor(short)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(short)
	if err != nil {
		return nil, err
	}
	return &apiHealth{client: client, url: base.JoinPath("livez").String(), changed: changed}, nil
}

// reachable is an answer only while watched is on.
func (a *apiHealth) reachable() bool { return !a.away.Load() }

func (a *apiHealth) watch(ctx context.Context) {
	tick := time.NewTicker(apiPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !a.wanted.Load() {
			a.away.Store(false)
			continue
		}
		if away := !a.ask(ctx); away != a.away.Swap(away) {
			select {
			case a.changed <- struct{}{}:
			default:
			}
		}
	}
}

// ask: any answer is a sign of life, also that we may not ask.
func (a *apiHealth) ask(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return false
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}
