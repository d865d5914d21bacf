// Package failover tests agents on real nodes with real packets: whatever
// happens to a node, its cable, its agent, the API server or the LAN, every
// address is answered for by exactly one node in the end, and none is lost.
//
// The agents and the controller are processes of the real binary, in the nodes'
// namespaces, so that they can be killed, stopped and followed by others at any
// moment. What the Services lead to is a server beside the cluster, so that no
// pod dies with a node and every failed connection is the address's fault.
package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/sandbox"
)

// cluster is up while the tests of this package run.
var cluster = &sandbox.Cluster{Name: "failover"}

var nodes = []string{"node1", "node2", "node3"}

var (
	fairlead       string // the real one
	scratch        string // a directory that nodes see, too
	nodeKubeconfig string // for programs on nodes
	api            client.Client
)

// serverPort is where the server beside the cluster listens.
const serverPort = 18080

// keep is the name of a variable: if it is set, the cluster stays, for who
// changes these tests and does not want to wait for it each time.
const keep = "FAIRLEAD_KEEP_CLUSTER"

func TestMain(m *testing.M) {
	os.Exit(run(context.Background(), m))
}

func run(ctx context.Context, m *testing.M) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	unlock, err := alone(ctx)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	if os.Getenv(keep) == "" {
		if err := cluster.Down(ctx); err != nil { // of tests that were killed
			return fail(err)
		}
		defer func() {
			if err := cluster.Down(ctx); err != nil {
				code = fail(err)
			}
		}()
	}
	if scratch, err = os.MkdirTemp("", "failover"); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(scratch)
	if err := build(ctx); err != nil {
		return fail(err)
	}
	if err := cluster.Up(ctx); err != nil {
		return fail(err)
	}
	if err := prepare(ctx); err != nil {
		return fail(err)
	}
	servers, err := serve()
	if err != nil {
		return fail(err)
	}
	defer servers()
	if err := startController(); err != nil {
		return fail(err)
	}
	defer stopController()
	defer endAll()
	return m.Run()
}

// alone waits until no other process runs these tests.
func alone(ctx context.Context) (unlock func(), err error) {
	var l net.Listener
	err = await(ctx, 30*time.Minute, func() error {
		l, err = net.Listen("unix", "@fairlead-failover-tests")
		return err
	})
	return func() { l.Close() }, err
}

func build(ctx context.Context) error {
	fairlead = filepath.Join(scratch, "fairlead")
	build := exec.CommandContext(ctx, "go", "build", "-o", fairlead, "fairlead.io/cmd/fairlead")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build fairlead: %w\n%s", err, out)
	}
	return nil
}

// prepare makes clients, our kinds and a pool.
func prepare(ctx context.Context) error {
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		c.Server = "https://10.77.0.1:6443"
	}
	nodeKubeconfig = filepath.Join(scratch, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, nodeKubeconfig); err != nil {
		return err
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, metallb.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	rest, err := cluster.RESTConfig()
	if err != nil {
		return err
	}
	if api, err = client.New(rest, client.Options{Scheme: s}); err != nil {
		return err
	}
	for _, crd := range charts.CRDs() {
		if err := api.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	pool := &v1alpha1.Pool{}
	pool.Name = "lan"
	pool.Spec.Addresses = []v1alpha1.Span{"10.77.0.200-10.77.0.219", "fd77::200-fd77::219"}
	return await(ctx, time.Minute, func() error {
		err := api.Create(ctx, pool)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

var controller *exec.Cmd

// startController starts the controller, again if it runs.
func startController() error {
	stopController()
	controller = exec.Command(fairlead, "controller", "--kubeconfig", cluster.Kubeconfig())
	return controller.Start()
}

func stopController() {
	if controller != nil {
		_, _ = controller.Process.Kill(), controller.Wait()
	}
}

// serve runs the server that Services lead to: it says hello and hangs up.
func serve() (stop func(), err error) {
	var l net.Listener
	err = cluster.In(sandbox.ControlHost, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", serverPort))
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	return func() { _ = l.Close() }, nil
}

// await waits until the condition holds, and returns its last error otherwise.
func await(ctx context.Context, atMost time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", atMost, err)
		case <-tick.C:
		}
	}
}

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	if err := await(t.Context(), time.Minute, condition); err != nil {
		t.Fatal(err)
	}
}

// during calls do for the time given, and stops early if it fails.
func during(t *testing.T, d time.Duration, do func() error) {
	t.Helper()
	end := time.Now().Add(d)
	err := await(t.Context(), time.Minute, func() error {
		if err := do(); err != nil {
			t.Error(err)
			return nil
		}
		if time.Now().Before(end) {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
