package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options are the choices of [StartAPI]. The zero value is etcd, the API
// server and the controller manager.
type Options struct {
	NoControllers bool      // without kube-controller-manager; pods then need no service account
	Scheduler     bool      // with kube-scheduler
	Audit         bool      // record writes, for API.WriteCounts
	LogFile       string    // where the server logs; default: a file in its directory
	Progress      io.Writer // shows the building of Kubernetes; default: os.Stderr
	APIServerArgs []string  // further flags of kube-apiserver
	ManagerArgs   []string  // further flags of kube-controller-manager
}

// API is a running API server. Its methods are not for concurrent use, except
// RESTConfig and WriteCounts.
type API struct {
	Kubeconfig string // path of a kubeconfig for an administrator

	options Options
	kube    string
	dir     string
	port    uint16
	process *child
}

// StartAPI starts a control plane as a child process and waits until it is
// ready, about four seconds. It ends with the calling process at the latest;
// Stop ends it before and removes its files.
func StartAPI(ctx context.Context, o Options) (*API, error) {
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	kube, err := KubeBinary(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	// Another process may take the port between our choice and its use.
	for range 3 {
		var a *API
		if a, err = startAPI(ctx, kube, o); err == nil {
			return a, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, err
}

func startAPI(ctx context.Context, kube string, o Options) (*API, error) {
	dir, err := os.MkdirTemp("", "fairlead-api-")
	if err != nil {
		return nil, fmt.Errorf("make directory of the API server: %w", err)
	}
	a := &API{options: o, kube: kube, dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if a.options.LogFile == "" {
		a.options.LogFile = filepath.Join(dir, "control-plane.log")
	}
	if err := a.prepare(); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	if err := a.Restart(ctx); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

func (a *API) prepare() error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	a.port = port
	p, err := newPKI(filepath.Join(a.dir, "pki"))
	if err != nil {
		return err
	}
	if err := p.controlPlane(a.port); err != nil {
		return err
	}
	return p.kubeconfig("admin", a.Kubeconfig, fmt.Sprintf("https://127.0.0.1:%d", a.port))
}

// Restart kills the server if it runs and starts it again, with the same data
// on the same port. It returns when the server is ready.
func (a *API) Restart(ctx context.Context) error {
	if err := a.Kill(); err != nil {
		return err
	}
	log, err := os.OpenFile(a.options.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log of the API server: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(a.kube, "control-plane",
		"--dir="+a.data(),
		"--pki="+filepath.Join(a.dir, "pki"),
		"--remove="+a.dir,
		fmt.Sprintf("--port=%d", a.port),
		"--no-fsync",
		fmt.Sprintf("--no-controllers=%t", a.options.NoControllers),
		fmt.Sprintf("--scheduler=%t", a.options.Scheduler))
	if a.options.Audit {
		cmd.Args = append(cmd.Args, "--audit-log="+a.auditLog())
	}
	for _, arg := range a.options.APIServerArgs {
		cmd.Args = append(cmd.Args, "--apiserver-arg="+arg)
	}
	for _, arg := range a.options.ManagerArgs {
		cmd.Args = append(cmd.Args, "--controller-manager-arg="+arg)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if a.process, err = startChild(cmd); err != nil {
		return fmt.Errorf("start control plane: %w", err)
	}
	if err := a.waitReady(ctx); err != nil {
		return fmt.Errorf("start control plane: %w; %s", err, logTail(a.options.LogFile))
	}
	return nil
}

func (a *API) waitReady(ctx context.Context) error {
	config, err := adminConfig(a.Kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return waitReady(ctx, config, a.process.done)
}

// waitReady waits until the API server says that it is ready, or gives up when
// its process has ended.
func waitReady(ctx context.Context, config *rest.Config, ended <-chan struct{}) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server to be ready: %w (%w)", ctx.Err(), err)
		case <-ended:
			return errors.New("it ended at once")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill kills the server as a power failure would. It is no error if it does
// not run.
func (a *API) Kill() error {
	if a.process == nil {
		return nil
	}
	return a.process.kill()
}

// Stop kills the server and removes its files.
func (a *API) Stop() error {
	if err := a.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(a.dir); err != nil {
		return fmt.Errorf("remove directory of the API server: %w", err)
	}
	return nil
}

// RESTConfig returns a new configuration for an administrator, without a limit
// on requests per second.
func (a *API) RESTConfig() *rest.Config {
	config, err := adminConfig(a.Kubeconfig)
	if err != nil {
		// We have written the file ourselves.
		panic(err)
	}
	return config
}

func adminConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// WriteCounts counts the writes that the server has answered since it was
// first started, with Options.Audit. A write shows up a moment after its
// answer.
func (a *API) WriteCounts() (map[Write]int, error) {
	if !a.options.Audit {
		return nil, errors.New("count writes: the API server was started without Options.Audit")
	}
	return readAudit(a.auditLog())
}

func (a *API) auditLog() string { return filepath.Join(a.dir, "audit.log") }

// FreePort returns a port that nobody listens on now. It is below the ports
// that Linux gives to outgoing connections (32768 and up), so that it is still
// free after a server on it was killed.
func FreePort() (uint16, error) {
	var err error
	for range 50 {
		port := uint16(20000 + rand.IntN(12000))
		var l net.Listener
		l, err = net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
