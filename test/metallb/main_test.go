// Package metallb tests on real nodes that Fairlead stands in for MetalLB: a
// running MetalLB is replaced, and comes back, while clients connect; and a
// cluster's gateway gets its floating address as MetalLB's people set it up, with
// the commands that they use.
package metallb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
)

const (
	root      = "../.."
	namespace = "metallb-system"
	// serverPort is where the server beside the cluster listens, which Services
	// lead to that are not about pods.
	serverPort = 18080
)

// cluster is up while the tests of this package run.
var cluster = &sandbox.Cluster{Name: "fairlead-metallb"}

var nodes = []string{"node1", "node2", "node3"}

var (
	api kube.Client
	tag string // of the image
)

// keep is the name of a variable: if it is set, the cluster stays, for who
// changes these tests and does not want to wait for it each time.
const keep = "FAIRLEAD_KEEP_CLUSTER"

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard())
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
	if err := cluster.Up(ctx); err != nil {
		return fail(err)
	}
	if err := prepare(ctx); err != nil {
		return fail(err)
	}
	stop, err := serve()
	if err != nil {
		return fail(err)
	}
	defer stop()
	return m.Run()
}

// alone waits until no other process runs these tests.
func alone(ctx context.Context) (unlock func(), err error) {
	var l net.Listener
	err = await(ctx, 30*time.Minute, func() error {
		l, err = net.Listen("unix", "@fairlead-metallb-tests")
		return err
	})
	return func() { l.Close() }, err
}

func prepare(ctx context.Context) error {
	config, err := cluster.RESTConfig()
	if err != nil {
		return err
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, metallb.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	if api, err = kube.New(config, kube.Options{Scheme: s}); err != nil {
		return err
	}
	tag, err = cluster.LoadFairlead(ctx)
	return err
}

// serve runs the server beside the cluster: it says hello and hangs up.
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

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := await(t.Context(), time.Minute, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// sh runs a line as a person at the keyboard would, with kubectl and helm of the
// cluster, in the root of the tree.
func sh(t *testing.T, line string) string {
	t.Helper()
	out, err := trySh(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func trySh(ctx context.Context, line string) (string, error) {
	const helm = `helm() { go tool -modfile=tools.mod helm "$@"; }; `
	cmd := exec.CommandContext(ctx, "bash", "-ec", helm+line)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "KUBECONFIG="+cluster.Kubeconfig(),
		"PATH="+filepath.Join(cluster.StateDir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return string(out), nil
}

// create makes an object that ends with the test.
func create(t *testing.T, o kube.Object) {
	t.Helper()
	eventually(t, "create "+o.GetName(), func() error { return api.Create(t.Context(), o) })
	t.Cleanup(func() { remove(t, o) })
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, o kube.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := await(ctx, time.Minute, func() error {
		if err := api.Delete(ctx, o); kube.IgnoreNotFound(err) != nil {
			return err
		}
		if err := api.Get(ctx, kube.ObjectKeyFromObject(o), o); err == nil {
			return errors.New("it is still there")
		} else if kube.IgnoreNotFound(err) != nil && !strings.Contains(err.Error(), "no matches for kind") {
			return err
		}
		return nil
	})
	if err != nil {
		t.Errorf("delete %s: %v", o.GetName(), err)
	}
}

// removeKinds removes all kinds that are not Kubernetes' own.
func removeKinds(t *testing.T) {
	t.Helper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := api.List(context.WithoutCancel(t.Context()), &crds); err != nil {
		t.Error(err)
	}
	for i := range crds.Items {
		remove(t, &crds.Items[i])
	}
}

// podsGone waits until no pod of a namespace is left.
func podsGone(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "all pods are gone", func() error {
		var pods corev1.PodList
		err := api.List(t.Context(), &pods, kube.InNamespace(namespace))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
}

// cleanNodes: nothing of ours is on any node.
func cleanNodes(t *testing.T, addresses ...string) {
	t.Helper()
	for _, node := range nodes {
		out, err := cluster.Exec(t.Context(), node, "sh", "-c", "nft list tables; ip -o address")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "fairlead") {
			t.Errorf("%s has tables of ours:\n%s", node, out)
		}
		for _, address := range addresses {
			if strings.Contains(string(out), " "+address+"/") {
				t.Errorf("%s has the address %s", node, address)
			}
		}
	}
}

// showLogs shows what our pods have said in a test that fails.
func showLogs(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		out, err := trySh(ctx, "kubectl get pods,services,agents --all-namespaces --output wide; kubectl logs --namespace "+namespace+" --selector app.kubernetes.io/name=fairlead --prefix --tail=200")
		t.Logf("%s (%v)", out, err)
	})
}
