package agent

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An agent that starts while the API server is away can be ended.
func TestEndedWithoutAPIServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{REST: &rest.Config{Host: "http://127.0.0.1:1"}, NodeName: "node1", Log: slog.New(slog.DiscardHandler)})
	}()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it failed: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits for the API server")
	}
}
