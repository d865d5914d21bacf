package tool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/rig"
)

// checkSets returns the DaemonSets of checks that there are.
func checkSets() ([]appsv1.DaemonSet, error) {
	var list appsv1.DaemonSetList
	err := theRig.Client.List(context.Background(), &list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "fairlead-check"})
	return list.Items, err
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left, err := checkSets(); err != nil || len(left) > 0 {
		t.Errorf("%d DaemonSets are left (%v)", len(left), err)
	}
}

// pretend makes a pod of the check on a node, whose container has ended with a message.
func pretend(ctx context.Context, node, message string, waiting *corev1.ContainerStateWaiting) error {
	var labels map[string]string
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		made, err := checkSets()
		if err != nil || len(made) == 0 {
			return false, err
		}
		labels = made[0].Spec.Template.Labels
		return true, nil
	})
	if err != nil {
		return err
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fairlead-check-" + node, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "check", Image: "fairlead"}}},
	}
	if err := theRig.Client.Create(ctx, p); err != nil {
		return err
	}
	state := corev1.ContainerState{Waiting: waiting}
	if waiting == nil {
		state.Terminated = &corev1.ContainerStateTerminated{Message: message}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "check", State: state}}
	return theRig.Client.Status().Update(ctx, p)
}

// Nodes report in the status of their pods. What was not checked is skipped, and says why;
// and nothing is left.
func TestCheckOnNodes(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		w.node(name, netip.AddrFrom4([4]byte{192, 0, 2, byte(201 + i)}))
		t.Cleanup(func() {
			_ = theRig.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		})
	}
	down := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n5"}}
	if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(down), down); err != nil {
		t.Fatal(err)
	}
	down.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := theRig.Client.Status().Update(t.Context(), down); err != nil {
		t.Fatal(err)
	}
	// One that was killed has left its own.
	old := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fairlead-check-old", Labels: map[string]string{"app.kubernetes.io/name": "fairlead-check"}, Annotations: map[string]string{"fairlead.io/deadline": "2020-01-01T00:00:00Z"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "check", Image: "fairlead"}}}},
		},
	}
	create(t, old)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pretended := make(chan error, 1)
	go func() {
		gone := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
			made, err := checkSets()
			return err == nil && len(made) == 1 && made[0].Name != old.Name, err
		})
		pretended <- errors.Join(gone,
			pretend(ctx, "n1", `{"results":[{"name":"kernel","mark":"passed","fact":"Linux 6.18"},{"name":"gossip","mark":"failed","fact":"1 of 3 nodes do not answer","fix":"Allow port 7947."}]}`, nil),
			pretend(ctx, "n2", "", &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}),
			pretend(ctx, "n3", "exec: /fairlead: no such file", nil))
	}()
	got, code := run(t, "check", "--on-nodes", "--wait", "10s")
	if err := <-pretended; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"✓ node n1 kernel: Linux 6.18\n",
		"✗ node n1 gossip: 1 of 3 nodes do not answer\n  → Allow port 7947.\n",
		"SKIP node n2: not checked: its pod waits: ImagePullBackOff no such image\n",
		"SKIP node n3: not checked: the container ended with \"exec: /fairlead: no such file\"\n",
		"SKIP node n4: not checked: it got no pod in time\n",
		"SKIP node n5: it is not Ready\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	nothingLeft(t)

	t.Run("interrupted", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
				made, err := checkSets()
				return len(made) > 0, err
			})
			interrupt()
		}()
		var out snapshot.Checks
		if err := onnodes.Run(ctx, onnodes.Options{Kube: theRig.Kube, Namespace: namespace, Image: "fairlead", Port: 7947, Wait: time.Minute}, &out); err != nil {
			t.Error(err)
		}
		nothingLeft(t)
	})

	t.Run("no namespace", func(t *testing.T) {
		if got, _ := run(t, "check", "--on-nodes", "--install-namespace", "nowhere"); !strings.Contains(got, "SKIP nodes: namespace nowhere does not exist\n  → kubectl create namespace nowhere\n") {
			t.Error(got)
		}
	})

	t.Run("no right", func(t *testing.T) {
		rig.Grant(t, theRig.Kube, "reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "services", "namespaces"}, Verbs: []string{"get", "list"}})
		file := kubeconfigOf(t, "reader")
		rig.Eventually(t, "rights count", func() error {
			got, code := runWith(t, file, "check", "--on-nodes")
			if code != 2 || !strings.Contains(got, "? nodes: unknown: cannot create daemonsets in namespace fairlead-system\n") {
				return fmt.Errorf("exit %d:\n%s", code, got)
			}
			return nil
		})
	})
}
