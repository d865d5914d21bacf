package install

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
)

// What "make up" does: a cluster with Fairlead from its chart in real pods, and
// an example that answers. Install itself waits for the answer.
func TestClusterWithFairlead(t *testing.T) {
	cluster := &sandbox.Cluster{Name: fmt.Sprintf("install-%d", os.Getpid()), Nodes: 2, Progress: testLog{t}}
	t.Cleanup(func() {
		if err := cluster.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} { // it can be repeated
		if err := cluster.Install(t.Context()); err != nil {
			t.Fatalf("install (again: %t): %v", again, err)
		}
	}
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, p := range pods.Items {
		nodes[p.Spec.NodeName] = true
		if p.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Errorf("pod %s was restarted", p.Name)
		}
	}
	if len(pods.Items) != 2 || len(nodes) != 2 {
		t.Errorf("want one replica on each of two nodes, got %d on %v", len(pods.Items), nodes)
	}
}

// testLog shows progress in the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
