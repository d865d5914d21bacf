// Package serve has the HTTP servers of the daemons: health, metrics and the page. What
// can be reached from outside of the machine is authenticated.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
)

// Server is one HTTP server as a part of a process.
type Server struct {
	name     string
	listener net.Listener
	handler  http.Handler
	log      *slog.Logger
}

// Health answers /healthz as long as the process runs, and /readyz as ready says.
func Health(address string, ready func(context.Context) bool, log *slog.Logger) (*Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if !ready(r.Context()) {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health checks: %w", err)
	}
	return &Server{name: "health", listener: l, handler: mux, log: log}, nil
}

// Metrics answers /metrics: in plain on a loopback address; on others with TLS,
// and only to clients that the API server allows to get it. api is how to reach it.
func Metrics(address string, api *rest.Config, from prometheus.Gatherer, log *slog.Logger) (*Server, error) {
	all := promhttp.HandlerFor(from, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	if isLoopback(l.Addr()) {
		mux.Handle("/metrics", all)
	} else {
		client, err := newReviewClient(api)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		mux.Handle("/metrics", authorised(client, all))
		if l, err = withTLS(l); err != nil {
			return nil, err
		}
	}
	return &Server{name: "metrics", listener: l, handler: mux, log: log}, nil
}

// PageData is where what the page shows is. The API server decides who may get it.
const PageData = "/page/data/"

// Page answers /page/ with TLS: its files to everybody, for they say nothing about the
// cluster; what it shows only to clients that the API server allows to get it.
func Page(address string, api *rest.Config, files, data http.Handler, log *slog.Logger) (*Server, error) {
	client, err := newReviewClient(api)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/{$}", http.RedirectHandler("/page/", http.StatusFound))
	mux.Handle("/page/", http.StripPrefix("/page", files))
	mux.Handle(PageData, authorised(client, http.StripPrefix("/page", data)))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page: %w", err)
	}
	if l, err = withTLS(l); err != nil {
		return nil, err
	}
	return &Server{name: "page", listener: l, handler: mux, log: log}, nil
}

// Address is where the server listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

func isLoopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().IsLoopback()
}

// NeedLeaderElection is false: every replica is asked for its health.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	s.log.Info("listening", "for", s.name, "address", s.listener.Addr().String())
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.name, err)
	}
	return nil
}
