package cloud

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		const each = time.Second
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			for _, id := range []string{"a", "b"} {
				all.Go(func() {
					unlock, err := l.Lock(t.Context(), id)
					if err != nil {
						t.Error(err)
						return
					}
					defer unlock()
					<-time.After(each)
				})
			}
		}
		all.Wait()
		if took := time.Since(began); took != 5*each {
			t.Errorf("took %v: different IDs do not wait for each other, and five changes of one do", took)
		}
		if len(l.all) != 0 {
			t.Errorf("%d locks are left", len(l.all))
		}
	})
}

func TestLockIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		unlock()
		unlock() // more than once does no harm
		if again, err := l.Lock(t.Context(), "a"); err != nil {
			t.Error(err)
		} else {
			again()
		}
		if len(l.all) != 0 {
			t.Errorf("%d locks are left", len(l.all))
		}
	})
}
