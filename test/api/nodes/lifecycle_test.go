package nodes

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/rig"
)

// atWork registers a node that was initialized long ago.
func (w *world) atWork(t *testing.T, name, private string) cloudscale.Server {
	t.Helper()
	server := w.AddServer(name, private)
	register(t, name, func(n *corev1.Node) { n.Spec.Taints, n.Spec.ProviderID = nil, "cloudscale://"+server.UUID })
	report(t, name, corev1.ConditionTrue)
	return server
}

func shutDown(name string, want bool) func() error {
	return func() error {
		n, err := get(name)
		if err == nil && hasTaint(n, cloudproviderapi.TaintNodeShutdown) != want {
			err = fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return err
	}
}

func gone(name string) func() error {
	return func() error {
		_, err := get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	}
}

// A server that is stopped is known to be so by its Node's taint, until it is
// back.
func TestShutdownTaint(t *testing.T) {
	w := newWorld(t)
	server := w.atWork(t, "worker-1", "10.1.1.1")
	w.atWork(t, "worker-2", "10.1.1.2")
	w.start(t)
	if err := w.Edit(cloudscale.Servers, server.UUID, `{"status": "stopped"}`); err != nil {
		t.Fatal(err)
	}
	report(t, "worker-1", corev1.ConditionUnknown)
	report(t, "worker-2", corev1.ConditionFalse) // not ready, but not stopped
	rig.Eventually(t, "worker-1 is tainted", shutDown("worker-1", true))
	if err := w.Edit(cloudscale.Servers, server.UUID, `{"status": "running"}`); err != nil {
		t.Fatal(err)
	}
	report(t, "worker-1", corev1.ConditionTrue)
	rig.Eventually(t, "worker-1 is not tainted any more", shutDown("worker-1", false))
	if err := shutDown("worker-2", false)(); err != nil {
		t.Errorf("worker-2: %v", err)
	}
}

// A Node goes when the cloud says that its server is not found, and never for any
// other answer.
func TestNodeOfDeletedServer(t *testing.T) {
	w := newWorld(t)
	server := w.atWork(t, "worker-1", "10.1.1.1")
	w.atWork(t, "worker-2", "10.1.1.2")
	w.start(t)
	rig.Eventually(t, "the servers are listed", func() error {
		if lists, _ := w.asked(); lists == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if err := w.Delete(cloudscale.Servers, server.UUID); err != nil {
		t.Fatal(err)
	}
	report(t, "worker-1", corev1.ConditionUnknown)
	report(t, "worker-2", corev1.ConditionUnknown)
	rig.Eventually(t, "the Node is gone", gone("worker-1"))
	told(t, "worker-1", "DeletingNode", "does not exist in the cloud provider")
	if _, err := get("worker-2"); err != nil {
		t.Errorf("worker-2, whose server is there: %v", err)
	}
}

func TestNodeStaysWhateverElseTheCloudAnswers(t *testing.T) {
	one := func(server cloudscale.Server) string { return "/v1/servers/" + server.UUID }
	for name, fault := range map[string]func(cloudscale.Server) cloudscale.Fault{
		"list 500":       func(cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: "/v1/servers", Status: 500} },
		"list 404":       func(cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: "/v1/servers", Status: 404} },
		"get 500":        func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Status: 500} },
		"get 503":        func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Status: 503} },
		"get 401":        func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Status: 401} },
		"get 403":        func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Status: 403} },
		"get 429":        func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Status: 429} },
		"get is cut":     func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Cut: true} },
		"get lost":       func(s cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Path: one(s), Lose: true} },
		"token is wrong": func(cloudscale.Server) cloudscale.Fault { return cloudscale.Fault{Status: 401} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server := w.atWork(t, "worker-1", "10.1.1.1")
			w.atWork(t, "worker-2", "10.1.1.2")
			report(t, "worker-1", corev1.ConditionUnknown)
			if err := w.Delete(cloudscale.Servers, server.UUID); err != nil {
				t.Fatal(err)
			}
			f := fault(server)
			f.Times = -1
			end := w.Fail(f)
			w.ResetLog()
			w.start(t)
			rig.Eventually(t, "the cloud was asked, and failed", func() error {
				failed := 0
				for _, r := range w.Log() {
					if r.Fault != "" {
						failed++
					}
				}
				if failed < 8 {
					return fmt.Errorf("%d times", failed)
				}
				return nil
			})
			if _, err := get("worker-1"); err != nil {
				t.Fatalf("the Node: %v", err)
			}
			end()
			rig.Eventually(t, "the Node is gone", gone("worker-1"))
		})
	}
}

// A Node without a providerID is not deleted because no server has its name, nor
// one of another cloud.
func TestNodesThatAreNotOurs(t *testing.T) {
	w := newWorld(t)
	register(t, "nameless", func(n *corev1.Node) { n.Spec.Taints = nil })
	register(t, "elsewhere", func(n *corev1.Node) { n.Spec.Taints, n.Spec.ProviderID = nil, "aws:///i-0abc" })
	server := w.atWork(t, "worker-1", "10.1.1.1")
	for _, name := range []string{"nameless", "elsewhere", "worker-1"} {
		report(t, name, corev1.ConditionUnknown)
	}
	if err := w.Delete(cloudscale.Servers, server.UUID); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	rig.Eventually(t, "worker-1, whose server is gone, is gone", gone("worker-1"))
	for _, name := range []string{"nameless", "elsewhere"} {
		if _, err := get(name); err != nil {
			t.Errorf("node %s: %v", name, err)
		}
	}
}

// A leader that ends leaves nothing behind.
func TestEnd(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	before := goleak.IgnoreCurrent()
	stop := w.start(t)
	register(t, "worker-1")
	initialized(t, "worker-1", server)
	stop()
	leak.None(t, before,
		// Idle connections to the API server, which client-go keeps for all clients.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}
