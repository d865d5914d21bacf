package cloudscale

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Everybody who asks at the same time waits for the same list.
func TestListingIsSharedAndAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		l := NewListing(func(ctx context.Context) ([]Server, error) {
			n := lists.Add(1)
			<-time.After(500 * time.Millisecond)
			return make([]Server, n), nil
		})
		ask := func(get func(context.Context) ([]Server, error), want int) {
			t.Helper()
			if got, err := get(t.Context()); err != nil || len(got) != want {
				t.Errorf("list %d: %v, want %d", len(got), err, want)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { ask(l.Servers, 1) })
		}
		all.Wait()
		ask(l.Recent, 1) // half a second old
		<-time.After(9 * time.Second)
		ask(l.Servers, 1)
		ask(l.Recent, 2)
		<-time.After(9400 * time.Millisecond)
		ask(l.Servers, 2)
		<-time.After(200 * time.Millisecond)
		ask(l.Servers, 3)
	})
}

// A failure is told to all who waited for it, and then tried again.
func TestListingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var lists atomic.Int32
		l := NewListing(func(ctx context.Context) ([]Server, error) {
			if lists.Add(1) == 1 {
				<-time.After(20 * time.Second)
				return nil, broken
			}
			return []Server{{}}, nil
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := l.Servers(t.Context()); !errors.Is(err, broken) {
					t.Errorf("error %v", err)
				}
			})
		}
		all.Wait()
		if _, err := l.Servers(t.Context()); err != nil || lists.Load() != 2 {
			t.Errorf("%d lists: %v", lists.Load(), err)
		}
	})
}

// Who gives up does so alone.
func TestListingIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewListing(func(ctx context.Context) ([]Server, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return []Server{{}}, nil
			}
		})
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := l.Servers(first); !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := l.Servers(t.Context()); err != nil || len(got) != 1 {
				t.Errorf("who did not: %d, %v", len(got), err)
			}
		})
		impatient, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		all.Go(func() {
			if _, err := l.Servers(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who waits no longer: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}
