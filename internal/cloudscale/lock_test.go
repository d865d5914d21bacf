package cloudscale

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
		c := &Client{}
		const each = time.Second
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			for _, lb := range []string{"a", "b"} {
				all.Go(func() {
					unlock, err := c.Lock(t.Context(), lb)
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
			t.Errorf("took %v: two load balancers do not wait for each other, and five changes of one do", took)
		}
		if len(c.locks.all) != 0 {
			t.Errorf("%d locks are left", len(c.locks.all))
		}
	})
}

func TestLockIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{}
		unlock, err := c.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		unlock()
		unlock() // more than once does no harm
		if again, err := c.Lock(t.Context(), "a"); err != nil {
			t.Error(err)
		} else {
			again()
		}
		if len(c.locks.all) != 0 {
			t.Errorf("%d locks are left", len(c.locks.all))
		}
	})
}
