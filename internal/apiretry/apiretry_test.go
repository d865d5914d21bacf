package apiretry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	t := &transport{next: l, away: &atomic.Bool{}, log: slog.New(slog.DiscardHandler)}
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
