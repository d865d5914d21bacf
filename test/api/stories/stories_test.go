package stories

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	// The Nodes of stories have no kubelet: how they are is the story's to say, not that
	// of the controller that finds them silent.
	os.Exit(rig.Main(m, sandbox.Options{ManagerArgs: []string{"--controllers=*,-node-lifecycle-controller"}}, &theRig))
}

// TestStories has the stories of Fairlead, also in MetalLB's place.
func TestStories(t *testing.T) { tell(t, "testdata") }

// TestKubeVIPStories has those in the place of kube-vip's cloud provider.
func TestKubeVIPStories(t *testing.T) { tell(t, "testdata/kubevip", "KUBEVIP_NAMESPACE=kube-system") }

// TestCloudscaleStories has those in a simulated cloudscale.ch.
func TestCloudscaleStories(t *testing.T) { tell(t, "testdata/cloudscale", cloudToken+"="+cloud.Token) }

// tell runs one story after the other: pools are for the whole cluster. Each
// begins with a controller in the environment. After all of them no goroutine of a
// controller is left.
func tell(t *testing.T, dir string, environment ...string) {
	kube, err := sandbox.KubeBinary(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir() // of what kubectl has learned about the API server
	metrics := rig.FreeAddress(t)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		leak.None(t, before,
			// Idle connections to the API server, which client-go keeps for all clients.
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))
	})
	script.Tell(t, testscript.Params{Dir: dir, Cmds: commands(kube)}, func(t *testing.T, env *testscript.Env) error {
		env.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
		env.Setenv("KUBECACHEDIR", cache)
		env.Setenv("HOME", env.WorkDir)
		s := &story{rig: theRig, t: t, metrics: metrics, environment: environment}
		s.clean()
		env.Values[storyKey{}] = s
		if err := s.metallb([]string{"install"}); err != nil {
			return err
		}
		s.kindsChanged = false
		if slices.ContainsFunc(environment, func(v string) bool { return strings.HasPrefix(v, cloudToken) }) {
			s.cloud = cloud.New(t, func(o *cloudscale.Options) { o.ReadOnlyToken = readOnlyToken })
			if err := s.nodes(); err != nil {
				return err
			}
		}
		if err := s.start(nil); err != nil {
			return err
		}
		env.Defer(func() {
			s.stop()
			if s.kindsChanged {
				s.rig.RemoveMetalLB(s.t)
			}
		})
		return nil
	})
}

// clean leaves nothing of the story before: rig.Clean, and what stories make
// besides pools and Services.
func (s *story) clean() {
	ctx := context.Background()
	s.rig.Clean(s.t)
	kubevip := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}}
	if err := s.rig.Client.Delete(ctx, kubevip); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	rig.Eventually(s.t, "remove nodes and labels of namespaces", func() error {
		if err := s.rig.Client.DeleteAllOf(ctx, &corev1.Node{}); err != nil {
			return err
		}
		if err := s.rig.Client.DeleteAllOf(ctx, &v1alpha1.Agent{}); err != nil {
			return err
		}
		var list corev1.NamespaceList
		if err := s.rig.Client.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if len(o.Labels) < 2 || strings.HasPrefix(o.Name, "kube-") {
				continue
			}
			o.Labels, o.Annotations = nil, nil
			if err := s.rig.Client.Update(ctx, o); err != nil {
				return err
			}
		}
		return nil
	})
}
