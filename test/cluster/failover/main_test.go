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
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/tree"
)

// cluster is up while the tests of this package run.
var cluster = site.Shared

var nodes = []string{"node1", "node2", "node3"}

var (
	fairlead       string // the real one
	scratch        string // a directory that nodes see, too
	nodeKubeconfig string // for programs on nodes
	api            client.Client
)

const serverPort = site.ServerPort

var await = site.Await

func TestMain(m *testing.M) {
	os.Exit(run(context.Background(), m))
}

func run(ctx context.Context, m *testing.M) (code int) {
	var err error
	if scratch, err = os.MkdirTemp("", "failover"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return site.Main(ctx, cluster, m.Run, func(ctx context.Context) (done func(), err error) {
		if fairlead, err = tree.Build(ctx, "fairlead", scratch); err != nil {
			return nil, err
		}
		if err := prepare(ctx); err != nil {
			return nil, err
		}
		return func() { endAll(ctx); stopController() }, startController()
	})
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
	if api, err = site.Client(cluster); err != nil {
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
	return await(ctx, site.Long, func() error {
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

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	if err := await(t.Context(), site.Long, condition); err != nil {
		t.Fatal(err)
	}
}

// during calls do for the time given, and stops early if it fails.
func during(t *testing.T, d time.Duration, do func() error) {
	t.Helper()
	end := time.Now().Add(d)
	err := await(t.Context(), d+site.Long, func() error {
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
