package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/process"
)

// Server is a Prometheus at work.
type Server struct {
	url string
}

// Start runs a server with this configuration file, with its data in memory only as long
// as the test runs.
func Start(t testing.TB, config string) *Server {
	t.Helper()
	port, err := sandbox.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process.Start(t, exec.Command(Program(t, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn"))
	return &Server{url: "http://" + address}
}

// Sample is one series of an answer.
type Sample struct {
	Labels map[string]string `json:"metric"`
	Value  [2]any            `json:"value"` // a time, and a number as text
}

// Query asks for an expression as it is now.
func (s *Server) Query(ctx context.Context, expr string) ([]Sample, error) {
	var out struct {
		Result []Sample `json:"result"`
	}
	err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &out)
	return out.Result, err
}

// Alert is an alert that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
}

// Alerts returns all alerts that are pending or firing.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var out struct {
		Alerts []Alert `json:"alerts"`
	}
	return out.Alerts, s.get(ctx, "/api/v1/alerts", &out)
}

// Target is an address that is read, or should be.
type Target struct {
	Labels map[string]string `json:"labels"`
	URL    string            `json:"scrapeUrl"`
	Error  string            `json:"lastError"`
	Health string            `json:"health"`
}

// Targets returns all targets.
func (s *Server) Targets(ctx context.Context) ([]Target, error) {
	var out struct {
		Active []Target `json:"activeTargets"`
	}
	return out.Active, s.get(ctx, "/api/v1/targets?state=active", &out)
}

func (s *Server) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("GET %s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("GET %s: %s: %s", path, response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}
