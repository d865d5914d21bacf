package ovn

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"fairlead.io/internal/lb"
)

// A plan that was handed over is answered for, however long that takes: its row may be
// written after its caller has gone, when the address is somebody else's.
func TestCommitWaitsForItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := New(Options{Cluster: "c1", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan int64, 1)
		go func() {
			cfg, _ := db.Commit(ctx, "shop/web", lb.Plan{})
			returned <- cfg
		}()
		j := <-db.jobs
		cancel()
		synctest.Wait()
		select {
		case <-returned:
			t.Fatal("the caller has gone before its plan is real")
		default:
		}
		j.done <- committed{cfg: 7}
		if cfg := <-returned; cfg != 7 {
			t.Errorf("nb_cfg is %d", cfg)
		}
		if _, err := db.Commit(ctx, "shop/web", lb.Plan{}); err == nil {
			t.Error("a plan that nobody takes is committed")
		}
	})
}
