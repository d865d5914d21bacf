package cloudscale

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// rights are all that a controller needs which serves nothing but a cloud: apart from
// the UID of kube-system, by which it knows its cluster in the cloud, less
// than the manifest of cloudscale's own controller gives.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
}

const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// The real binary, told nothing but the access token, outside of a cluster that
// knows none of our kinds, as somebody who may do little: a node is initialised,
// and a Service gets its load balancer, is changed, and goes.
func TestNothingButACloud(t *testing.T) {
	w := &world{Cloud: cloud.New(t), t: t}
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.kube, err = kubernetes.NewForConfig(api.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w.addNode("node-1", func(n *corev1.Node) {
		n.Spec.ProviderID = ""
		n.Spec.Taints = []corev1.Taint{{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	})
	p := launch(t, w, limited(t, api, w.kube), "--leader-elect", "--leader-elect-namespace", "kube-system")

	w.eventually("the node is initialised", func() error {
		n, err := w.kube.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n.Spec.ProviderID == "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized }) {
			return fmt.Errorf("providerID %q, taints %v", n.Spec.ProviderID, n.Spec.Taints)
		}
		return nil
	})
	w.apply(web)
	w.service("web", "has a load balancer", ensured)
	w.apply(`
metadata: {name: web}
spec:
  type: LoadBalancer
  ports:
  - {name: http, port: 8080}
`)
	w.eventually("the port is another", w.has("tcp/8080"))
	w.apply(strings.Replace(web, "LoadBalancer", "ClusterIP", 1))
	w.service("web", "is clean", clean)
	w.apply(web)
	w.service("web", "has a load balancer", ensured)
	w.delete("web")
	w.eventually("all gone", w.gone("web"))
	for _, bad := range []string{"forbidden", "no matches for kind"} {
		if strings.Contains(p.Log.String(), bad) {
			t.Errorf("the log says %s:\n%s", bad, p.Log.String())
		}
	}
}

// limited writes a kubeconfig of somebody with exactly the rights.
func limited(t *testing.T, api *sandbox.API, kube kubernetes.Interface) (path string) {
	t.Helper()
	const user = "fairlead-cloud"
	rig.Grant(t, kube, user, rights...)
	c, err := clientcmd.LoadFromFile(api.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range c.AuthInfos {
		u.Impersonate = user
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// launch runs the binary with nothing but the access token.
func launch(t *testing.T, w *world, kubeconfig string, args ...string) *process.Process {
	t.Helper()
	if w.binary == "" {
		w.binary = tree.Binary(t, "fairlead")
	}
	cmd := exec.Command(w.binary, append([]string{"controller", "--kubeconfig", kubeconfig, "--cluster-name", "test"}, args...)...)
	cmd.Env = []string{"CLOUDSCALE_ACCESS_TOKEN=" + token, "CLOUDSCALE_API_URL=" + w.URL}
	return process.Start(t, cmd)
}
