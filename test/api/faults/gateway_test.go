package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

// gateway is between controllers and the API server. It carries a write to its end although
// the controller that sent it is gone, as the API server does with a write that it has
// begun, and it knows when the last one has ended.
type gateway struct {
	server     *httptest.Server
	kubeconfig string

	mu    sync.Mutex
	conns int // open connections of controllers
	// held, if not "", is part of the path of writes that wait, each until its channel
	// is closed.
	held  string
	queue []chan struct{}
}

func newGateway(t testing.TB) *gateway {
	t.Helper()
	config := theRig.API.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	g := &gateway{}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			body, err := io.ReadAll(r.Body) // while the controller lives
			if err != nil {
				return
			}
			// With a context that cannot end, the proxy would watch the connection itself.
			ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
			defer cancel()
			r = r.WithContext(ctx)
			r.Body = io.NopCloser(bytes.NewReader(body))
			g.wait(r.URL.Path)
		}
		proxy.ServeHTTP(w, r)
	}))
	g.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch s {
		case http.StateNew:
			g.conns++
		case http.StateClosed, http.StateHijacked:
			g.conns--
		default:
		}
	}
	g.server.Start()
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	g.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"g","contexts":[{"name":"g","context":{"cluster":"g","user":"g"}}],
"clusters":[{"name":"g","cluster":{"server":%q}}],"users":[{"name":"g","user":{}}]}`, g.server.URL)
	if err := os.WriteFile(g.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// launch runs binary as a controller behind the gateway.
func (g *gateway) launch(t testing.TB, binary string, args ...string) *process.Process {
	t.Helper()
	return process.Start(t, exec.Command(binary, append([]string{"controller", "--kubeconfig", g.kubeconfig}, args...)...))
}

// quiet waits until everything that controllers have sent has ended. They must be dead.
func (g *gateway) quiet(t testing.TB) {
	t.Helper()
	// Connections are accepted in order: behind this one no other waits.
	resp, err := http.Get(g.server.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	rig.Eventually(t, "the writes of the dead have ended", func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.conns > 0 {
			return fmt.Errorf("%d connections are open", g.conns)
		}
		return nil
	})
}

// hold has writes to paths with this part wait.
func (g *gateway) hold(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = path
}

// next lets the write pass that has waited longest.
func (g *gateway) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.queue[0])
	g.queue = g.queue[1:]
}

// release lets all pass.
func (g *gateway) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.queue {
		close(one)
	}
	g.held, g.queue = "", nil
}

// waiting returns how many writes wait.
func (g *gateway) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

func (g *gateway) wait(path string) {
	g.mu.Lock()
	if g.held == "" || !strings.Contains(path, g.held) {
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	<-turn
}
