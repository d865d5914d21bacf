package controller

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
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// serveHealth answers /healthz as long as the process runs, and /readyz once it
// knows the cluster; a replica that does not lead is ready, too.
func serveHealth(mgr manager.Manager, o Options) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if !synced(r.Context(), mgr.GetCache()) {
			http.Error(w, "the caches are not filled yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	l, err := net.Listen("tcp", o.HealthAddress)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	return mgr.Add(&server{name: "health", listener: l, handler: mux, log: o.Log})
}

// synced says whether all kinds have been listed.
func synced(ctx context.Context, c cache.Cache) bool {
	for _, kind := range watched() {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return true
}

// serveMetrics answers /metrics with our metrics and controller-runtime's.
func serveMetrics(mgr manager.Manager, o Options, client kubernetes.Interface, ours prometheus.Gatherer) error {
	all := promhttp.HandlerFor(prometheus.Gatherers{ours, crmetrics.Registry}, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	l, err := net.Listen("tcp", o.MetricsAddress)
	if err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	if isLoopback(l.Addr()) {
		mux.Handle("/metrics", all)
	} else {
		mux.Handle("/metrics", authorised(client, all))
		if l, err = withTLS(l); err != nil {
			return err
		}
	}
	return mgr.Add(&server{name: "metrics", listener: l, handler: mux, log: o.Log})
}

func isLoopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().IsLoopback()
}

// server is one HTTP server as a part of the process.
type server struct {
	name     string
	listener net.Listener
	handler  http.Handler
	log      *slog.Logger
}

// NeedLeaderElection is false: every replica is asked for its health.
func (s *server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *server) Start(ctx context.Context) error {
	s.log.Info("listening", "for", s.name, "address", s.listener.Addr().String())
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.name, err)
	}
	return nil
}
