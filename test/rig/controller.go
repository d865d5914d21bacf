package rig

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/reasons"
)

// Start runs a controller in this process until the returned function is called
// or the test ends.
func (r *Rig) Start(t testing.TB, change ...func(*controller.Options)) (stop func()) {
	t.Helper()
	o := controller.Options{
		REST:             r.API.RESTConfig(),
		Config:           config.Default(),
		Log:              slog.New(slog.NewTextHandler(logOf(t), nil)),
		Namespace:        "kube-system",
		MetalLBNamespace: MetalLBNamespace,
		Workers:          8,
		Reasons:          reasons.All,
		HealthAddress:    "127.0.0.1:0",
		MetricsAddress:   "127.0.0.1:0",
	}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// logOf returns where a controller logs: it is shown if the test fails. (The
// test's own output must not be written to by goroutines that end after it.)
func logOf(t testing.TB) io.Writer {
	var l lockedBuffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the controller:\n%s", &l)
		}
	})
	return &l
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Process is the real binary at work.
type Process struct {
	cmd *exec.Cmd
}

// Binary builds the real binary and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fairlead")
	build := exec.Command("go", "build", "-o", path, "fairlead.io/cmd/fairlead")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build fairlead: %v\n%s", err, out)
	}
	return path
}

// Launch runs binary as "fairlead controller" against the rig's API server. It
// is killed at the end of the test; if the test fails, its log is shown.
func (r *Rig) Launch(t testing.TB, binary string, args ...string) *Process {
	t.Helper()
	p, log := &Process{}, logOf(t)
	p.cmd = exec.Command(binary, append([]string{"controller", "--kubeconfig", r.API.Kubeconfig}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Stop ends the process with SIGTERM and waits until it is gone.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}
