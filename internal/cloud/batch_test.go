package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The first change is done alone, and what comes while it is done together.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		b := NewBatches(func(_ context.Context, id string, batch *Batch[int]) []Outcome[string] {
			changes := batch.Take()
			<-time.After(time.Second)
			batches = append(batches, slices.Sorted(slices.Values(changes)))
			out := make([]Outcome[string], len(changes))
			for i, n := range changes {
				if out[i].Value = fmt.Sprint(id, n); n == 3 {
					out[i].Err = errors.New("three")
				}
			}
			return out
		})
		var all sync.WaitGroup
		for n := range 5 {
			all.Go(func() {
				<-time.After(time.Duration(n) * 10 * time.Millisecond)
				if got, err := b.Do(t.Context(), "x", n); got != fmt.Sprint("x", n) || (err != nil) != (n == 3) {
					t.Errorf("%d: %s, %v", n, got, err)
				}
			})
		}
		all.Wait()
		if got := fmt.Sprint(batches); got != "[[0] [1 2 3 4]]" {
			t.Error(got)
		}
		if len(b.waiting) != 0 || len(b.open) != 0 || len(b.locks.all) != 0 {
			t.Error("something is kept")
		}
	})
}

// Who gives up takes nobody else along, and is not done if nobody has begun.
func TestBatchesGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := map[int]bool{}
		b := NewBatches(func(ctx context.Context, _ string, batch *Batch[int]) []Outcome[int] {
			changes := batch.Take()
			out := make([]Outcome[int], len(changes))
			select {
			case <-time.After(time.Minute):
				for _, n := range changes {
					done[n] = true
				}
			case <-ctx.Done():
				for i := range out {
					out[i].Err = ctx.Err()
				}
			}
			return out
		})
		do := func(n int, begin, patience time.Duration) error {
			<-time.After(begin)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := b.Do(ctx, "x", n)
			return err
		}
		var all sync.WaitGroup
		all.Go(func() { _ = do(1, 0, time.Hour) })
		all.Go(func() { // waits, and gives up before its turn
			if err := do(2, time.Second, 10*time.Second); err == nil {
				t.Error("done")
			}
		})
		// Both wait for the second batch. Whoever leads it, the other's patience is enough.
		all.Go(func() { _ = do(3, 2*time.Second, 70*time.Second) })
		all.Go(func() {
			if err := do(4, 3*time.Second, time.Hour); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if err := do(5, 0, time.Second); err == nil {
			t.Error("it went on although nobody waited")
		}
		if !done[1] || done[2] || !done[3] || !done[4] || done[5] || len(b.waiting) != 0 {
			t.Error(done)
		}
	})
}

// Who comes before the changes are taken takes part. Who comes when all others have
// given up does not give up with them.
func TestBatchesJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []string
		b := NewBatches(func(ctx context.Context, _ string, batch *Batch[int]) []Outcome[int] {
			waiting := len(batch.Waiting())
			<-time.After(time.Second) // reads, and does not notice that nobody waits
			changes := batch.Take()
			batches = append(batches, fmt.Sprint(waiting, slices.Sorted(slices.Values(changes))))
			out := make([]Outcome[int], len(changes))
			for i := range out {
				out[i].Err = ctx.Err()
			}
			return out
		})
		do := func(n int, begin, patience time.Duration) error {
			<-time.After(begin)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := b.Do(ctx, "x", n)
			return err
		}
		var all sync.WaitGroup
		for n, begin := range []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond} {
			all.Go(func() {
				if err := do(n, begin, time.Minute); err != nil {
					t.Error(n, err)
				}
			})
		}
		all.Wait()
		all.Go(func() {
			if err := do(3, 0, 100*time.Millisecond); err == nil {
				t.Error("it was done although nobody waited")
			}
		})
		all.Go(func() {
			if err := do(4, 500*time.Millisecond, time.Minute); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if got := fmt.Sprint(batches); got != "[1 [0 1] 1 [2] 1 [3] 1 [4]]" {
			t.Error(got)
		}
		if len(b.waiting) != 0 || len(b.open) != 0 || len(b.locks.all) != 0 {
			t.Error("something is kept")
		}
	})
}

// A burst is one batch, as long as it takes no longer than reading did.
func TestBatchesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []int
		b := NewBatches(func(ctx context.Context, _ string, batch *Batch[int]) []Outcome[int] {
			<-time.After(500 * time.Millisecond)
			batch.Gather(ctx, 500*time.Millisecond)
			n := len(batch.Take())
			batches = append(batches, n)
			<-time.After(time.Second)
			return make([]Outcome[int], n)
		})
		burst := func(n int, every time.Duration) time.Duration {
			batches = nil
			began := time.Now()
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					<-time.After(time.Duration(i) * every)
					if _, err := b.Do(t.Context(), "x", i); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return time.Since(began)
		}
		if took := burst(1, 0); took != 1500*time.Millisecond || fmt.Sprint(batches) != "[1]" {
			t.Error("alone:", took, batches)
		}
		if burst(90, 10*time.Millisecond); fmt.Sprint(batches) != "[90]" {
			t.Error("a burst:", batches)
		}
		if burst(300, 10*time.Millisecond); fmt.Sprint(batches) != "[100 200]" {
			t.Error("without an end:", batches)
		}
	})
}
