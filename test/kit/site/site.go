// Package site is what tests on real nodes stand on: a cluster that is up while the
// tests of a suite run, which suites share if they leave it as it was, a server beside
// it, and a person at the keyboard.
package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/tree"
)

// keep is the name of a variable. If it is set, [Shared] stays when a suite has ended,
// for the next one; who sets it takes the cluster down in the end, as make does.
const keep = "FAIRLEAD_KEEP_CLUSTER"

// Shared is the cluster of all suites that leave a cluster as it was.
var Shared = &sandbox.Cluster{Name: "fairlead-tests", StateDir: "/var/lib/fairlead-tests-sandbox"}

// ServerPort is where the server beside the cluster listens.
const ServerPort = 18080

// Main runs the tests of a suite while c is up, and returns their exit code. Other
// processes with a cluster of this name wait. prepare is called when c is up; what it
// returns, when the tests have ended.
//
// Of a shared cluster, a suite gets one that is as it was in the beginning, or a new
// one: after a suite that failed, was killed, or left something, the next one starts
// with a new cluster.
func Main(ctx context.Context, c *sandbox.Cluster, tests func() int, prepare func(context.Context) (done func(), err error)) (code int) {
	crlog.SetLogger(logr.Discard()) // of clients; who tests something looks for itself
	code, err := run(ctx, c, tests, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(ctx context.Context, c *sandbox.Cluster, tests func() int, prepare func(context.Context) (done func(), err error)) (code int, err error) {
	unlock, err := alone(ctx, c)
	if err != nil {
		return 1, err
	}
	defer unlock()
	if c != Shared { // this suite has the machine for itself
		if err := downShared(ctx); err != nil {
			return 1, err
		}
	}
	stays := c == Shared && os.Getenv(keep) != ""
	var before picture
	known := false
	if stays {
		before, err = takeDown(c)
		known = err == nil
	}
	if !known {
		if err := c.Down(ctx); err != nil { // of tests that were killed
			return 1, err
		}
	}
	if !stays {
		defer func() { err = errors.Join(err, c.Down(ctx)) }()
	}
	if err := c.Up(ctx); err != nil {
		return 1, err
	}
	if stays && !known {
		api, err := Client(c)
		if err != nil {
			return 1, err
		}
		if before, err = look(ctx, c, api); err != nil {
			return 1, err
		}
	}
	if code, err = during(ctx, c, tests, prepare); err != nil || code != 0 || !stays {
		return code, err
	}
	if err := restore(ctx, c, before); err != nil {
		fmt.Fprintf(os.Stderr, "the cluster is not as it was, so the next suite gets a new one: %v\n", err)
		return code, nil
	}
	return code, before.hang(c)
}

// during runs tests between prepare and what that returns.
func during(ctx context.Context, c *sandbox.Cluster, tests func() int, prepare func(context.Context) (done func(), err error)) (code int, err error) {
	hangUp, err := serve(c)
	if err != nil {
		return 1, err
	}
	defer hangUp()
	done, err := prepare(ctx)
	if err != nil {
		return 1, err
	}
	defer done()
	return tests(), nil
}

// downShared takes down the shared cluster when nobody uses it.
func downShared(ctx context.Context) error {
	unlock, err := alone(ctx, Shared)
	if err != nil {
		return err
	}
	defer unlock()
	return Shared.Down(ctx)
}

// alone waits until no other process uses a cluster of this name.
func alone(ctx context.Context, c *sandbox.Cluster) (unlock func(), err error) {
	var l net.Listener
	err = Await(ctx, 30*time.Minute, func() (err error) {
		l, err = net.Listen("unix", "@fairlead-tests-"+c.Name)
		return err
	})
	return func() { _ = l.Close() }, err
}

// serve runs the server beside the cluster, which Services lead to that are not
// about pods: it says hello and hangs up.
func serve(c *sandbox.Cluster) (stop func(), err error) {
	var l net.Listener
	err = c.In(sandbox.ControlHost, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", ServerPort))
		return err
	})
	if err != nil {
		return nil, err
	}
	go client.Serve(l)
	return func() { _ = l.Close() }, nil
}

// Aside returns the endpoints of a Service that leads to the server beside the
// cluster.
func Aside(s *corev1.Service) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name,
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("tcp"), Port: ptr.To(int32(ServerPort)), Protocol: ptr.To(corev1.ProtocolTCP)}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.77.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	return slice
}

// Client returns a client for all kinds of a cluster that is up.
func Client(c *sandbox.Cluster) (kube.WithWatch, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, metallb.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return kube.NewWithWatch(config, kube.Options{Scheme: s})
}

// Await waits until the condition holds, and returns its last error otherwise.
func Await(ctx context.Context, atMost time.Duration, condition func() error) error {
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

// Long is how long anything may take that has no time of its own, on a slow and busy
// machine. It is no expectation: what is expected sooner is measured in test/bench.
const Long = 3 * time.Minute

// Eventually waits until the condition holds, and fails the test if that takes too
// long.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	if err := Await(t.Context(), Long, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Shell runs a line as a person at the keyboard would, with kubectl and helm of the
// cluster, in the root of the tree.
func Shell(ctx context.Context, c *sandbox.Cluster, line string) (string, error) {
	const helm = `helm() { go tool -modfile=tools.mod helm "$@"; }; `
	cmd := exec.CommandContext(ctx, "bash", "-ec", helm+line)
	cmd.Dir = tree.Path()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+filepath.Join(c.StateDir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return string(out), nil
}
