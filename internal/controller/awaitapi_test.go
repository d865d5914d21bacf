package controller

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"fairlead.io/internal/config"
)

// A controller whose classes need no kind of ours waits for an API server that is away,
// too, instead of ending.
func TestAwaitAPIServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := false
	err = Run(ctx, Options{
		REST:     &rest.Config{Host: address},
		Config:   &config.Configuration{Classes: []config.Class{{Backend: "elsewhere"}}},
		Backends: map[config.Backend]Backend{"elsewhere": {Backend: idle{}}},
		Workers:  1,
		Log: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.MessageKey && strings.Contains(a.Value.String(), "cannot reach the API server") {
				waits = true
				cancel()
			}
			return a
		}})),
	})
	if err != nil || !waits {
		t.Errorf("ended with %v, waited: %v", err, waits)
	}
}
