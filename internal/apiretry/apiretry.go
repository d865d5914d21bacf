// Package apiretry retries lists and watches while the API server does not answer, and
// begins them again if etcd was restored from a backup.
// Without it, an informer backs off after a few failures and tries again only after
// up to a minute, long after the API server is back.
package apiretry

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// pause between two attempts, with as much again at random: the watches of a
// hundred nodes must not come back at the same moment.
const pause = time.Second

// NewCache makes caches whose lists and watches wait for the API server. They are
// filled again if etcd is restored from a backup; rewound, if not nil, is then called,
// before, and several times.
func NewCache(log *slog.Logger, rewound func()) cache.NewCacheFunc {
	return func(c *rest.Config, o cache.Options) (cache.Cache, error) {
		o.HTTPClient = nil // a new one is made from the configuration
		return cache.New(configure(c, log, rewound), o)
	}
}

// Config is for clients whose lists and watches wait for the API server.
func Config(c *rest.Config, log *slog.Logger) *rest.Config { return configure(c, log, nil) }

func configure(c *rest.Config, log *slog.Logger, rewound func()) *rest.Config {
	waiting := rest.CopyConfig(c)
	var away absence
	waiting.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, away: &away, log: log, rewound: rewound}
	})
	return waiting
}

// transport repeats reads that got no answer at all until they get one or are no
// longer wanted. An answer that is an error is the caller's affair.
type transport struct {
	next http.RoundTripper
	away *absence
	log  *slog.Logger
	// rewound is called when the API server has gone back in time; or nil.
	rewound func()
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		if resp := t.expired(r); resp != nil {
			return resp, nil
		}
		resp, err := t.next.RoundTrip(r)
		if err == nil {
			if t.away.answers() {
				t.log.Info("the API server is back")
			}
			return resp, nil
		}
		if r.Method != http.MethodGet || r.Context().Err() != nil {
			return nil, err
		}
		first, back := t.away.fails()
		if first {
			t.log.Warn("the API server is away; going on with what is known", "error", err)
		}
		wait := time.NewTimer(pause + rand.N(pause))
		select {
		case <-r.Context().Done():
			wait.Stop()
			return nil, err
		case <-back:
			wait.Stop()
		case <-wait.C:
		}
	}
}

// absence of the API server. The first request that it answers has all others
// tried again at once: a node's watches find it back together, and soon, though each of them
// asks rarely.
type absence struct {
	mu   sync.Mutex
	back chan struct{} // closed when it answers again; nil while it is not away
}

// fails notes that there was no answer. It says whether that is new, and what to wait for.
func (s *absence) fails() (first bool, back <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.back == nil; first {
		s.back = make(chan struct{})
	}
	return first, s.back
}

// answers notes an answer, and says whether that is new.
func (s *absence) answers() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.back != nil; first {
		close(s.back)
		s.back = nil
	}
	return first
}

// Await waits until the API server answers, whatever it says, or ctx ends. What asks
// about kinds has no context: before the first answer it would wait for ever.
func Await(ctx context.Context, c *rest.Config, log *slog.Logger) error {
	asker, err := kubernetes.NewForConfig(Config(c, log))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	_ = asker.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	return ctx.Err()
}

// IgnoreEnd returns err unless ctx has ended: a process that is stopped while it
// starts, which may wait for the API server, has not failed.
func IgnoreEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}
