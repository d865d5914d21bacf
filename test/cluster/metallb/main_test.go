// Package metallb tests on real nodes that Fairlead stands in for MetalLB: a
// running MetalLB is replaced, and comes back, while clients connect; and a
// cluster's gateway gets its floating address as MetalLB's people set it up, with
// the commands that they use.
package metallb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/site"
)

const namespace = "metallb-system"

// cluster is up while the tests of this package run.
var cluster = site.Shared

var nodes = []string{"node1", "node2", "node3"}

var (
	api kube.Client
	tag string // of the image
)

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), cluster, m.Run, func(ctx context.Context) (done func(), err error) {
		if api, err = site.Client(cluster); err != nil {
			return nil, err
		}
		tag, err = cluster.LoadFairlead(ctx)
		return func() {}, err
	}))
}

var eventually = site.Eventually

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

func trySh(ctx context.Context, line string) (string, error) { return site.Shell(ctx, cluster, line) }

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
	err := site.Await(ctx, site.Long, func() error {
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
