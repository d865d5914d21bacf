package cloud

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type server struct{ id string }

func newServers(list func(context.Context) ([]server, error)) *ListCache[server] {
	return NewListCache(list, func(s *server) string { return s.id })
}

// Everybody who asks at the same time waits for the same list.
func TestListCacheIsSharedAndAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		l := newServers(func(ctx context.Context) ([]server, error) {
			n := lists.Add(1)
			<-time.After(500 * time.Millisecond)
			return make([]server, n), nil
		})
		ask := func(age time.Duration, want int) {
			t.Helper()
			if got, err := l.Within(t.Context(), age); err != nil || len(got) != want {
				t.Errorf("list %d: %v, want %d", len(got), err, want)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { ask(LookAge, 1) })
		}
		all.Wait()
		ask(MissAge, 1) // half a second old
		<-time.After(9 * time.Second)
		ask(LookAge, 1)
		ask(MissAge, 2)
		<-time.After(9400 * time.Millisecond)
		ask(LookAge, 2)
		<-time.After(200 * time.Millisecond)
		ask(LookAge, 3)
	})
}

// A failure is told to all who waited for it, and then tried again.
func TestListCacheFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var lists atomic.Int32
		l := newServers(func(ctx context.Context) ([]server, error) {
			if lists.Add(1) == 1 {
				<-time.After(20 * time.Second)
				return nil, broken
			}
			return []server{{}}, nil
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := l.Within(t.Context(), LookAge); !errors.Is(err, broken) {
					t.Errorf("error %v", err)
				}
			})
		}
		all.Wait()
		if _, err := l.Within(t.Context(), LookAge); err != nil || lists.Load() != 2 {
			t.Errorf("%d lists: %v", lists.Load(), err)
		}
	})
}

// Who waited for a failure, but needs nothing that new, gets what there is.
func TestListCacheFailsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		l := newServers(func(context.Context) ([]server, error) {
			if lists++; lists == 2 {
				<-time.After(time.Second)
				return nil, errors.New("broken")
			}
			return []server{{"a"}}, nil
		})
		if _, err := l.Within(t.Context(), LookAge); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := l.Within(t.Context(), MissAge); err == nil {
				t.Error("the list was not read")
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := l.Within(t.Context(), LookAge); err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		})
		all.Wait()
	})
}

// What was returned stays as it is, whatever changes.
func TestListsAreNotChanged(t *testing.T) {
	l := newServers(func(context.Context) ([]server, error) {
		return append(make([]server, 0, 8), server{"a"}, server{"b"}), nil
	})
	before, err := l.Within(t.Context(), LookAge)
	if err != nil {
		t.Fatal(err)
	}
	l.Put(server{"c"})
	after := l.Peek()
	l.Drop("a")
	l.Put(server{"d"})
	l.Edit("b", func(s *server) { s.id = "b" })
	if !slices.Equal(before, []server{{"a"}, {"b"}}) || !slices.Equal(after, []server{{"a"}, {"b"}, {"c"}}) || !slices.Equal(l.Peek(), []server{{"b"}, {"c"}, {"d"}}) {
		t.Errorf("%v, %v, %v", before, after, l.Peek())
	}
}

// Who gives up does so alone.
func TestListCacheIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newServers(func(ctx context.Context) ([]server, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return []server{{}}, nil
			}
		})
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := l.Within(first, LookAge); !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := l.Within(t.Context(), LookAge); err != nil || len(got) != 1 {
				t.Errorf("who did not: %d, %v", len(got), err)
			}
		})
		impatient, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		all.Go(func() {
			if _, err := l.Within(impatient, LookAge); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who waits no longer: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

// What changes while a list is read is in it afterwards, whether the list has it
// or not.
func TestChangesWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, failure := 0, error(nil)
		s := NewListCache(func(context.Context) ([]string, error) {
			reads++
			list := []string{"old", "dropped"}
			<-time.After(time.Second)
			return list, failure
		}, func(o *string) string { return *o })
		read := func(oldest, known time.Time) []string {
			t.Helper()
			all, err := s.Since(t.Context(), oldest, known)
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
			return slices.Sorted(slices.Values(all))
		}
		began := time.Now()
		done := make(chan []string)
		go func() { done <- read(began, time.Time{}) }()
		synctest.Wait()
		s.Put("new")
		s.Put("old")
		s.Drop("dropped")
		if got := <-done; !slices.Equal(got, []string{"new", "old"}) {
			t.Errorf("%v", got)
		}
		// It is read once for all who trust it, and again for who does not.
		if read(began, time.Time{}); reads != 1 {
			t.Errorf("read %d times", reads)
		}
		if read(began.Add(time.Millisecond), time.Time{}); reads != 2 {
			t.Errorf("read %d times", reads)
		}
		if read(time.Now(), time.Now()); reads != 2 {
			t.Errorf("what is known was read: %d times", reads)
		}
		// What was forgotten while it was read has to be read again.
		go func() { done <- read(time.Now(), time.Time{}) }()
		synctest.Wait()
		s.Forget()
		<-done
		if read(began, time.Time{}); reads != 4 {
			t.Errorf("read %d times", reads)
		}
		failure = errors.New("no")
		s.Forget()
		if got := read(began, time.Time{}); got != nil {
			t.Errorf("%v", got)
		}
	})
}

// Who needs nothing that new does not wait for who does.
func TestListCacheDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newServers(func(context.Context) ([]server, error) {
			<-time.After(time.Second)
			return []server{{"a"}}, nil
		})
		if _, err := l.Within(t.Context(), LookAge); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := l.Since(t.Context(), time.Now(), time.Time{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		began := time.Now()
		if got, err := l.Within(t.Context(), LookAge); err != nil || len(got) != 1 || time.Since(began) > 0 {
			t.Errorf("%v, %v after %s", got, err, time.Since(began))
		}
		all.Wait()
	})
}
