package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// proxyStory is what the health check says for a while.
type proxyStory struct {
	answer proxyAnswer
	rules  bool
	times  int // every proxyPeriod
	want   proxyState
}

func TestProxyStates(t *testing.T) {
	minutes, boot := int(proxyGone/proxyPeriod)+1, int(proxyBoot/proxyPeriod)+1
	for name, c := range map[string]struct {
		record proxyRecord
		story  []proxyStory
	}{
		"healthy from the start": {story: []proxyStory{{proxyGood, true, 1, proxyHealthy}}},
		"one miss is none":       {story: []proxyStory{{proxyGood, true, 1, proxyHealthy}, {proxySilent, true, proxyPatience - 1, proxyHealthy}, {proxyGood, true, 1, proxyHealthy}, {proxySilent, true, proxyPatience - 1, proxyHealthy}}},
		"it stops, its rules stay": {story: []proxyStory{{proxyGood, true, 1, proxyHealthy}, {proxySilent, true, proxyPatience, proxyUnhealthy},
			{proxySilent, true, 2 * minutes, proxyUnhealthy}}},
		"it is back: not at once": {story: []proxyStory{{proxyGood, true, 1, proxyHealthy}, {proxyBad, true, proxyPatience, proxyUnhealthy},
			{proxyGood, true, proxyPatience - 1, proxyUnhealthy}, {proxyBad, true, 1, proxyUnhealthy}, {proxyGood, true, proxyPatience, proxyHealthy}}},
		"it is removed with its rules: forgotten": {story: []proxyStory{{proxyGood, true, 1, proxyHealthy}, {proxySilent, false, proxyPatience, proxyUnhealthy},
			{proxySilent, false, minutes, proxyAbsent}, {proxySilent, false, minutes, proxyAbsent}}},
		"it is there and never healthy":          {story: []proxyStory{{proxyBad, false, 1, proxyNever}, {proxyBad, false, 2 * minutes, proxyNever}, {proxyGood, true, 1, proxyHealthy}}},
		"an agent is restarted while it is away": {story: []proxyStory{{proxySilent, true, proxyPatience - 1, proxyHealthy}, {proxySilent, true, 1, proxyUnhealthy}}},
		"there is none":                          {story: []proxyStory{{proxySilent, false, 1, proxyAbsent}, {proxySilent, false, minutes, proxyAbsent}}},
		"the node was just started": {record: proxyRecord{booting: true}, story: []proxyStory{{proxySilent, false, 1, proxyNever}, {proxySilent, false, boot - 2, proxyNever},
			{proxySilent, false, 2, proxyAbsent}}},
		"the node was just started, and works without":  {record: proxyRecord{booting: true, before: proxyAbsent}, story: []proxyStory{{proxySilent, false, 1, proxyAbsent}}},
		"it was healthy before this agent, and is gone": {record: proxyRecord{before: proxyHealthy}, story: []proxyStory{{proxySilent, false, 1, proxyUnhealthy}, {proxySilent, false, minutes, proxyAbsent}}},
		"it was never healthy before this agent":        {record: proxyRecord{before: proxyNever}, story: []proxyStory{{proxySilent, false, 1, proxyNever}, {proxySilent, false, minutes, proxyAbsent}}},
		"it comes after all":                            {story: []proxyStory{{proxySilent, false, minutes, proxyAbsent}, {proxyGood, true, 1, proxyHealthy}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := c.record, time.Now()
			for i, s := range c.story {
				for range s.times {
					r.take(s.answer, s.rules, now)
					now = now.Add(proxyPeriod)
				}
				if r.state != s.want {
					t.Fatalf("chapter %d: %s, want %s", i, r.state, s.want)
				}
			}
		})
	}
}

// What the health check says over HTTP.
func TestProxyAsk(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	p := &proxyHealth{url: server.URL, rules: func() bool { return false }}
	ask := func() proxyAnswer { return p.ask(context.Background(), proxyClient()) }
	if got := ask(); got != proxyGood {
		t.Errorf("healthy: %d", got)
	}
	status = http.StatusServiceUnavailable
	if got := ask(); got != proxyBad {
		t.Errorf("not healthy: %d", got)
	}
	p.begin(context.Background())
	if got := p.state(); got != proxyNever {
		t.Errorf("never healthy: %s", got)
	}
	server.Close()
	if got := ask(); got != proxySilent {
		t.Errorf("nothing listens: %d", got)
	}
	if got := (&proxyHealth{}).state(); got != proxyAbsent {
		t.Errorf("not asked at all: %s", got)
	}
}
