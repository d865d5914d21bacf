package serve

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// allowedKept and refusedKept are how long an answer of the API server counts. A
	// scrape should not cost two calls each time, and a right that was just given
	// should count soon.
	allowedKept, refusedKept = time.Minute, 10 * time.Second
	// knownKept is how long a token that was allowed goes before unknown ones when it
	// is reviewed again.
	knownKept = time.Hour
	// maxAnswers and maxSources are how many are remembered.
	maxAnswers, maxSources = 1024, 1024

	// Unknown tokens are reviewed at these rates, and no more than strangersAtOnce at
	// a time. A scraper needs one review; who sends many tokens is guessing.
	sourceQPS, sourceBurst = 1, 5
	strangersQPS           = 10
	strangersBurst         = 20
	strangersAtOnce        = 4

	reviewTimeout = 5 * time.Second
	maxToken      = 16 << 10
)

// answer is what the API server said of a token: a status, and a sentence unless it
// is http.StatusOK.
type answer struct {
	code int
	text string
}

var tooMany = answer{http.StatusTooManyRequests, "too many unknown tokens; try again later"}

// decision is an answer that is remembered, or awaited.
type decision struct {
	answer
	until time.Time
	done  chan struct{} // closed when there is an answer
}

// reviews remembers what the API server said of tokens, and limits how often it is
// asked. Strangers share a limit that does not count for tokens that were allowed
// before.
type reviews struct {
	ask func(ctx context.Context, path, token string) answer

	mu        sync.Mutex
	decisions map[[sha256.Size]byte]*decision
	sources   map[netip.Addr]flowcontrol.RateLimiter
	strangers flowcontrol.RateLimiter
	asking    int // for strangers
}

func newReviews(ask func(ctx context.Context, path, token string) answer) *reviews {
	return &reviews{
		ask: ask, decisions: map[[sha256.Size]byte]*decision{}, sources: map[netip.Addr]flowcontrol.RateLimiter{},
		strangers: flowcontrol.NewTokenBucketRateLimiter(strangersQPS, strangersBurst),
	}
}

// decide says what a client may do that has sent this token from that address.
func (r *reviews) decide(ctx context.Context, from netip.Addr, path, token string) answer {
	if len(token) > maxToken {
		return answer{http.StatusUnauthorized, "the token is too long"}
	}
	key := sha256.Sum256([]byte(path + "\x00" + token))
	now := time.Now()
	r.mu.Lock()
	d := r.decisions[key]
	if d == nil || d.answered() && !now.Before(d.until) {
		known := d != nil && d.code == http.StatusOK && now.Before(d.until.Add(knownKept))
		if !known && !r.admit(from) {
			r.mu.Unlock()
			return tooMany
		}
		d = &decision{done: make(chan struct{})}
		r.forget(now)
		r.decisions[key] = d
		go r.review(context.WithoutCancel(ctx), d, key, known, path, token)
	}
	r.mu.Unlock()
	select {
	case <-d.done:
		return d.answer
	case <-ctx.Done():
		return answer{http.StatusServiceUnavailable, "the request ended"}
	}
}

func (d *decision) answered() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// review asks the API server. Others who sent the same token wait for the answer.
func (r *reviews) review(ctx context.Context, d *decision, key [sha256.Size]byte, known bool, path, token string) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	a := r.ask(ctx, path, token)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !known {
		r.asking--
	}
	d.answer = a
	switch a.code {
	case http.StatusOK:
		d.until = time.Now().Add(allowedKept)
	case http.StatusUnauthorized, http.StatusForbidden:
		d.until = time.Now().Add(refusedKept)
	default: // no answer
		if known {
			// It goes first the next time, too.
			r.decisions[key] = &decision{answer: answer{code: http.StatusOK}, until: time.Now(), done: d.done}
		} else {
			delete(r.decisions, key)
		}
	}
	close(d.done)
}

// admit says whether an unknown token from an address may be reviewed now. The
// caller has the lock.
func (r *reviews) admit(from netip.Addr) bool {
	if from = from.Unmap().WithZone(""); from.Is6() {
		network, _ := from.Prefix(64)
		from = network.Addr()
	}
	limit := r.sources[from]
	if limit == nil {
		if len(r.sources) >= maxSources {
			clear(r.sources) // the limit for all of them still holds
		}
		limit = flowcontrol.NewTokenBucketRateLimiter(sourceQPS, sourceBurst)
		r.sources[from] = limit
	}
	if r.asking >= strangersAtOnce || !limit.TryAccept() || !r.strangers.TryAccept() {
		return false
	}
	r.asking++
	return true
}

// forget makes room for one more decision: refusals go before what was allowed. The
// caller has the lock.
func (r *reviews) forget(now time.Time) {
	if len(r.decisions) < maxAnswers {
		return
	}
	maps.DeleteFunc(r.decisions, func(_ [sha256.Size]byte, d *decision) bool {
		return d.answered() && (d.code != http.StatusOK || now.After(d.until.Add(knownKept)))
	})
	for key, d := range r.decisions {
		if len(r.decisions) < maxAnswers {
			return
		}
		if d.answered() {
			delete(r.decisions, key)
		}
	}
}
