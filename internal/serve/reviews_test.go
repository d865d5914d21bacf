package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// apiServer answers reviews, and counts them.
type apiServer struct {
	mu      sync.Mutex
	asked   map[string]int
	allowed map[string]bool
	slow    time.Duration
	down    bool
}

func (s *apiServer) review(ctx context.Context, _, token string) answer {
	s.mu.Lock()
	s.asked[token]++
	slow := s.slow
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return answer{http.StatusServiceUnavailable, "late"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return answer{http.StatusServiceUnavailable, "down"}
	case s.allowed[token]:
		return answer{code: http.StatusOK}
	}
	return answer{http.StatusUnauthorized, "unknown"}
}

// change changes what it says from now on.
func (s *apiServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *apiServer) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, count := range s.asked {
		n += count
	}
	return n
}

var scraper, stranger = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

func simulated(t *testing.T, test func(*testing.T, *apiServer, *reviews)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{asked: map[string]int{}, allowed: map[string]bool{"good": true}, slow: time.Millisecond}
		test(t, api, newReviews(api.review))
	})
}

func TestAnswersAreRemembered(t *testing.T) {
	simulated(t, func(t *testing.T, api *apiServer, r *reviews) {
		want := func(token string, code int) {
			t.Helper()
			if a := r.decide(t.Context(), scraper, "/metrics", token); a.code != code {
				t.Errorf("%s: got %d %s, want %d", token, a.code, a.text, code)
			}
		}
		for range 100 {
			want("good", http.StatusOK)
			want("bad", http.StatusUnauthorized)
		}
		if api.asked["good"] != 1 || api.asked["bad"] != 1 {
			t.Errorf("asked %v", api.asked)
		}
		<-time.After(refusedKept)
		api.change(func() { api.allowed["bad"] = true }) // a role was just bound
		want("bad", http.StatusOK)
		<-time.After(allowedKept)
		api.change(func() { api.allowed["good"] = false })
		want("good", http.StatusUnauthorized)

		// Those who come together cost one review.
		api.change(func() { api.asked, api.slow = map[string]int{}, time.Second })
		for range 50 {
			go r.decide(t.Context(), scraper, "/metrics", "new")
		}
		<-time.After(2 * time.Second)
		if api.total() != 1 {
			t.Errorf("asked %v", api.asked)
		}
		want(string(make([]byte, maxToken+1)), http.StatusUnauthorized)
		if api.total() != 1 {
			t.Errorf("asked about a token without end: %v", api.asked)
		}
	})
}

// A flood of unknown tokens costs few reviews, and delays no known token, also when
// that has to be reviewed again, and no scraper that comes from elsewhere.
func TestFloodOfUnknownTokens(t *testing.T) {
	simulated(t, func(t *testing.T, api *apiServer, r *reviews) {
		if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusOK {
			t.Fatal(a)
		}
		api.change(func() { api.allowed["second"] = true })
		end := time.After(10 * time.Minute)
		for i, ended := 0, false; !ended; i++ {
			select {
			case <-end:
				ended = true
			case <-time.After(10 * time.Millisecond):
				go r.decide(t.Context(), stranger, "/metrics", fmt.Sprint("guess ", i))
			}
			if i%100 != 50 {
				continue
			}
			began := time.Now()
			if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusOK || time.Since(began) > 10*time.Millisecond {
				t.Fatalf("a known token: %v after %s", a, time.Since(began))
			}
			if i == 5050 { // while the flood lasts
				if a := r.decide(t.Context(), scraper, "/metrics", "second"); a.code != http.StatusOK {
					t.Errorf("another scraper: %v", a)
				}
			}
		}
		if n := api.total(); n > 600+sourceBurst+20 {
			t.Errorf("%d reviews in ten minutes", n)
		}
		if len(r.decisions) > maxAnswers {
			t.Errorf("%d decisions are kept", len(r.decisions))
		}
	})
}

// Strangers from everywhere share a limit, and what is kept of them is bounded.
func TestFloodFromEverywhere(t *testing.T) {
	simulated(t, func(t *testing.T, api *apiServer, r *reviews) {
		if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusOK {
			t.Fatal(a)
		}
		from := netip.MustParseAddr("10.1.0.0")
		api.change(func() { api.slow = 3 * time.Second }) // and the API server has enough to do
		for i := range 20_000 {
			from = from.Next()
			go r.decide(t.Context(), from, "/metrics", fmt.Sprint("guess ", i))
			if i%100 == 0 {
				<-time.After(time.Second)
			}
		}
		<-time.After(time.Minute)
		if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusOK {
			t.Errorf("a known token: %v", a)
		}
		if n := api.total(); n > 260*strangersAtOnce/3+20 {
			t.Errorf("%d reviews", n)
		}
		if len(r.decisions) > maxAnswers || len(r.sources) > maxSources {
			t.Errorf("%d decisions, %d sources are kept", len(r.decisions), len(r.sources))
		}
	})
}

// While the API server does not answer, nothing is concluded, and known tokens keep
// their place.
func TestNoAnswerIsNotRemembered(t *testing.T) {
	simulated(t, func(t *testing.T, api *apiServer, r *reviews) {
		r.decide(t.Context(), scraper, "/metrics", "good")
		<-time.After(allowedKept)
		api.change(func() { api.down = true })
		for range 20 {
			if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusServiceUnavailable {
				t.Fatalf("got %v", a)
			}
		}
		api.change(func() { api.down = false })
		if a := r.decide(t.Context(), scraper, "/metrics", "good"); a.code != http.StatusOK {
			t.Errorf("got %v", a)
		}
	})
}
