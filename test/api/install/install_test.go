// Package install has tests of what people install: the kinds, the chart and
// the examples, against a real API server.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard())
	os.Exit(tree.Share(m.Run))
}

// startAPI starts an API server for one test.
func startAPI(t *testing.T) (*sandbox.API, client.Client) {
	t.Helper()
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	return api, newClient(t, api.RESTConfig())
}

// newClient returns a client that knows our kinds.
func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// installKinds creates the chart's CRDs and waits until they are served.
func installKinds(t *testing.T, c client.Client) {
	t.Helper()
	for _, crd := range charts.CRDs() {
		if err := c.Create(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	awaitKinds(t, c)
}

func awaitKinds(t *testing.T, c client.Client) {
	t.Helper()
	eventually(t, "the kinds are served", func(ctx context.Context) error {
		return errors.Join(c.List(ctx, &v1alpha1.PoolList{}), c.List(ctx, &v1alpha1.AgentList{}))
	})
}

// deadline is how long anything may take on a slow machine.
const deadline = 3 * time.Minute

// eventually waits until check returns no error.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s, not: %s: %v", deadline, what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// objects parses the documents of a YAML text.
func objects(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, &o)
		}
	}
}

// run runs a command in the root of the tree.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runWith(t, nil, name, args...)
}

// runWith runs a command with some variables in its environment. They are not the test's
// own: other tests run at the same time.
func runWith(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	out, err := try(t, environment, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(t *testing.T, environment []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = tree.Path(), append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}

// helm runs Helm on the cluster of a kubeconfig.
func helm(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := tryHelm(t, kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryHelm(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	return try(t, []string{"KUBECONFIG=" + kubeconfig, "HELM_CACHE_HOME=" + t.TempDir()}, tree.Tool(t, "helm"), args...)
}

// render runs Helm without any cluster.
func render(t *testing.T, args ...string) string {
	t.Helper()
	return helm(t, os.DevNull, append([]string{"template"}, args...)...)
}
