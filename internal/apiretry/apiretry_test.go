package apiretry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type line struct {
	broken atomic.Int32 // attempts that fail yet
	tried  atomic.Int32
}

var errBroken = errors.New("connection refused")

func (l *line) RoundTrip(*http.Request) (*http.Response, error) {
	l.tried.Add(1)
	if l.broken.Add(-1) >= 0 {
		return nil, errBroken
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

func send(ctx context.Context, l *line, method string) (status int, err error) {
	t := &transport{next: l, away: &absence{}, log: slog.New(slog.DiscardHandler)}
	resp, err := t.RoundTrip(httptest.NewRequestWithContext(ctx, method, "/api", nil))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestReadsWaitForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		l.broken.Store(100)
		began := time.Now()
		status, err := send(t.Context(), l, http.MethodGet)
		if err != nil || status != http.StatusServiceUnavailable {
			t.Fatalf("%v, %v: an answer, whatever it says, is passed on", status, err)
		}
		if l.tried.Load() != 101 || time.Since(began) < 100*pause || time.Since(began) > 200*pause {
			t.Errorf("%d attempts in %s", l.tried.Load(), time.Since(began))
		}
	})
}

func TestWritesDoNot(t *testing.T) {
	l := &line{}
	l.broken.Store(1)
	if _, err := send(t.Context(), l, http.MethodPatch); !errors.Is(err, errBroken) || l.tried.Load() != 1 {
		t.Errorf("%d attempts, %v", l.tried.Load(), err)
	}
}

func TestNobodyWaitsForWhatIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*pause)
		defer cancel()
		l := &line{}
		l.broken.Store(1000)
		if _, err := send(ctx, l, http.MethodGet); !errors.Is(err, errBroken) {
			t.Errorf("ended with %v", err)
		}
	})
}

// The first answer has all that wait ask again, not each in its own time.
func TestOneAnswerWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		var answered []time.Time
		var mu sync.Mutex
		shared, log := &absence{}, slog.New(slog.DiscardHandler)
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				tr := &transport{next: roundTrip(func() error {
					if broken.Load() {
						return errBroken
					}
					return nil
				}), away: shared, log: log}
				resp, err := tr.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				answered = append(answered, time.Now())
			})
		}
		<-time.After(10 * pause)
		broken.Store(false)
		asking.Wait()
		if first, last := slices.MinFunc(answered, time.Time.Compare), slices.MaxFunc(answered, time.Time.Compare); !last.Equal(first) {
			t.Errorf("the last of %d was answered %v after the first", len(answered), last.Sub(first))
		}
	})
}

type roundTrip func() error

func (f roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	if err := f(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}
