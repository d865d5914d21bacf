// Package kubevip tests on real nodes that Fairlead stands in for kube-vip and for its
// cloud provider: Services that these have served are taken over, and given back,
// while clients connect.
package kubevip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/tree"
)

const (
	guide = "docs/guides/migrate-from-kube-vip.md"
	// image is the one that the manifest and the chart name.
	image = sandbox.FairleadRepository + ":0.1.0"
)

// cluster is up while the tests of this package run.
var cluster = site.Shared

var api kube.Client

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), cluster, m.Run, prepare))
}

func prepare(ctx context.Context) (done func(), err error) {
	if api, err = site.Client(cluster); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kubevip")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := tree.Build(ctx, "fairlead", dir)
	if err != nil {
		return nil, err
	}
	archive := filepath.Join(dir, "fairlead.tar")
	if err := sandbox.FairleadImage(image, binary).WriteFile(archive); err != nil {
		return nil, err
	}
	return func() {}, cluster.Load(ctx, archive)
}

var eventually = site.Eventually

func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := site.Shell(t.Context(), cluster, line)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// guided runs a line of the guide as it is there, but for words that stand for
// others.
func guided(t *testing.T, line string, replacements ...string) string {
	t.Helper()
	text, err := os.ReadFile(tree.Path(guide))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", "")), " "), line) {
		t.Errorf("%s does not say %q", guide, line)
	}
	return shell(t, strings.NewReplacer(replacements...).Replace(line))
}

// create makes an object that ends with the test.
func create(t *testing.T, o kube.Object) {
	t.Helper()
	eventually(t, "create "+o.GetName(), func() error { return kube.IgnoreAlreadyExists(api.Create(t.Context(), o)) })
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		o.SetFinalizers(nil)
		_ = api.Patch(ctx, o, kube.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		if err := kube.IgnoreNotFound(api.Delete(ctx, o)); err != nil {
			t.Error(err)
		}
	})
}

// gone waits until an object that is being deleted is no more.
func gone(t *testing.T, o kube.Object) {
	t.Helper()
	if err := api.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	eventually(t, o.GetName()+" is gone", func() error {
		err := api.Get(t.Context(), kube.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it is there, with finalizers %v", o.GetFinalizers())
		}
		return kube.IgnoreNotFound(err)
	})
}

// showLogs shows what our pods have said in a test that fails.
func showLogs(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		out, err := site.Shell(ctx, cluster, "kubectl get pods,services --all-namespaces --output wide; kubectl get agents --output yaml; kubectl logs --namespace fairlead-system --selector app.kubernetes.io/name=fairlead --prefix --tail=100; kubectl logs --namespace kube-system --selector component=kube-vip-cloud-provider --prefix --tail=60")
		t.Logf("%s (%v)", out, err)
	})
}
