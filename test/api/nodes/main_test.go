// Package nodes runs the node controllers against a real API server and a
// simulated cloudscale.ch, with the rights that they are documented to need and
// no others.
package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"fairlead.io/internal/nodes"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

// rights are what the node controllers need.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "update", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

const user = "fairlead-nodes"

// asUser is a client configuration of somebody with exactly these rights.
func asUser(t *testing.T) *rest.Config {
	t.Helper()
	rig.Grant(t, theRig.Kube, user, rights...)
	c := rest.CopyConfig(theRig.API.RESTConfig())
	c.Impersonate.UserName = user
	return c
}

const token = cloud.Token

// world is a cloud with a private network and a cluster without nodes.
type world struct{ *cloud.Cloud }

func newWorld(t *testing.T) *world {
	t.Helper()
	clean := func() {
		ctx := context.Background()
		if err := theRig.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := theRig.Kube.CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	clean()
	t.Cleanup(clean)
	return &world{cloud.New(t, func(o *cloudscale.Options) { o.Creating = 0 })}
}

// start runs the node controllers until the returned function is called or the
// test ends.
func (w *world) start(t *testing.T, change ...func(*nodes.Options)) (stop func()) {
	t.Helper()
	c, servers := w.Client(t, token)
	o := nodes.Options{
		REST: asUser(t), Cloud: nodes.NewCloudscale(c, servers), Log: slog.New(slog.DiscardHandler), MonitorPeriod: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- nodes.New(o).Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("node controllers: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

var uninitialized = corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// register makes a Node as a kubelet with --cloud-provider=external does.
func register(t *testing.T, name string, change ...func(*corev1.Node)) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{uninitialized}}}
	for _, f := range change {
		f(n)
	}
	made, err := theRig.Kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// report sets the Node's condition Ready, as its kubelet does.
func report(t *testing.T, name string, ready corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","lastTransitionTime":null}]}}`, ready)
	if _, err := theRig.Kube.CoreV1().Nodes().Patch(t.Context(), name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func get(name string) (*corev1.Node, error) {
	return theRig.Kube.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

func addresses(n *corev1.Node) string {
	var out []string
	for _, a := range n.Status.Addresses {
		out = append(out, string(a.Type)+" "+a.Address)
	}
	return strings.Join(out, ", ")
}

// told waits for an event on the Node that says all of it.
func told(t *testing.T, node, reason string, says ...string) {
	t.Helper()
	rig.Eventually(t, "event "+reason+" on "+node, func() error {
		list, err := theRig.Kube.CoreV1().Events(metav1.NamespaceDefault).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
	events:
		for _, e := range list.Items {
			if e.InvolvedObject.Name != node {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Message)
			for _, s := range says {
				if !strings.Contains(e.Message, s) {
					continue events
				}
			}
			if e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("its events are %q", seen)
	})
}

// asked is how often the cloud was asked for all servers, and for one of them.
func (w *world) asked() (lists, gets int) {
	for _, r := range w.Log() {
		switch {
		case r.Path == "/v1/servers":
			lists++
		case strings.HasPrefix(r.Path, "/v1/servers/"):
			gets++
		}
	}
	return lists, gets
}
