package agent

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// proxyHealth asks kube-proxy whether it programs the node's Services.
type proxyHealth struct {
	url     string // empty: nobody is asked, and the node forwards
	rules   func() bool
	changed chan<- struct{}

	mu     sync.Mutex
	record proxyRecord
}

const (
	proxyPeriod  = 500 * time.Millisecond
	proxyTimeout = 400 * time.Millisecond
	// rulesPeriod is how often the kernel is asked for rules of a proxy that does not
	// answer.
	rulesPeriod = 5 * time.Second
)

// state is what is known now.
func (p *proxyHealth) state() proxyState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record.state == "" {
		return proxyAbsent
	}
	return p.record.state
}

// remember takes over what an earlier agent of this node knew.
func (p *proxyHealth) remember(before proxyState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.before, p.record.booting = before, booting()
}

// begin asks once, so that the first word to the other agents is true.
func (p *proxyHealth) begin(ctx context.Context) {
	if p.url != "" {
		client := proxyClient()
		p.take(p.ask(ctx, client), p.rules())
	}
}

func proxyClient() *http.Client {
	return &http.Client{Timeout: proxyTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

// take takes over an answer, and says whether it changed the state.
func (p *proxyHealth) take(answer proxyAnswer, rules bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.record.state
	p.record.take(answer, rules, time.Now())
	return p.record.state != before
}

// watch asks until ctx ends.
func (p *proxyHealth) watch(ctx context.Context) {
	if p.url == "" {
		return
	}
	client := proxyClient()
	tick := time.NewTicker(proxyPeriod)
	defer tick.Stop()
	var looked time.Time
	rules := false
	for {
		answer := p.ask(ctx, client)
		if answer != proxyGood && time.Since(looked) >= rulesPeriod {
			rules, looked = p.rules(), time.Now()
		}
		if p.take(answer, rules) {
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

func (p *proxyHealth) ask(ctx context.Context, client *http.Client) proxyAnswer {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return proxySilent
	}
	resp, err := client.Do(r)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return proxySilent
	case err != nil:
		return proxyBad // somebody listens, and is too slow
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return proxyGood
	}
	return proxyBad
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
