package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/rig"
)

const (
	podName  = "lb-ip-192-0-2-10"
	podImage = "registry.example/fairlead:1"
)

var podLabel = metav1.ListOptions{LabelSelector: "app=cloudsigma-lb-ip"}

// removePods removes what is left of pods, and makes the account that pods need where
// no controller does.
func removePods(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	rig.Eventually(t, "pods have an account", func() error { // the namespace comes a moment after the API server
		_, err := theRig.Kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(ctx, account, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	now := int64(0)
	if err := theRig.Kube.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, podLabel); err != nil {
		t.Error(err)
	}
}

// pod waits for the only pod to be there, another one than before, on that node.
func (w *world) pod(what, node string, before types.UID) *corev1.Pod {
	w.t.Helper()
	var found *corev1.Pod
	rig.Eventually(w.t, what, func() error {
		all, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).List(w.t.Context(), podLabel)
		if err != nil {
			return err
		}
		if len(all.Items) != 1 {
			return fmt.Errorf("there are %d pods", len(all.Items))
		}
		found = &all.Items[0]
		switch {
		case found.Name != podName:
			return fmt.Errorf("its name is %s", found.Name)
		case found.UID == before:
			return errors.New("it is the same as before")
		case found.Spec.NodeName != node || found.DeletionTimestamp != nil:
			return fmt.Errorf("it is on %s, deleted %v", found.Spec.NodeName, found.DeletionTimestamp)
		}
		return nil
	})
	return found
}

// kubelet ends the pod as soon as it is deleted.
func (w *world) kubelet(uid types.UID) {
	w.t.Helper()
	rig.Eventually(w.t, "the pod is deleted", func() error {
		p, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).Get(w.t.Context(), podName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case p.UID == uid && p.DeletionTimestamp == nil:
			return errors.New("it is not")
		}
		return nil
	})
	w.kill(uid)
}

// kill removes a pod at once.
func (w *world) kill(uid types.UID) {
	w.t.Helper()
	now := int64(0)
	err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).Delete(w.t.Context(), podName,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.t.Fatal(err)
	}
}

// Started as the original is, the program needs no agents: a pod carries each address,
// where it is, and is made again whatever becomes of it.
func TestPodsCarryAddresses(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	if err := theRig.Client.DeleteAllOf(t.Context(), &v1alpha1.Agent{}); err != nil {
		t.Fatal(err)
	}
	p := w.launch("--pod-image", podImage)
	web := w.service(w.create("web"), "is served", on("192.0.2.10", "node-1"))
	pod := w.pod("there is a pod", "node-1", "")
	for label, want := range map[string]string{"cloudsigma.com/ip": "192.0.2.10", "cloudsigma.com/svc": web.Spec.ClusterIP} {
		if got := pod.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	c := &pod.Spec.Containers[0]
	if !pod.Spec.HostNetwork || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || c.Image != podImage ||
		!slices.Equal(c.Command, []string{"/fairlead", "carry", "--address", "192.0.2.10"}) {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool { return o.Operator == corev1.TolerationOpExists && o.Key == "" }) {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
	if len(pod.Spec.Volumes) > 0 || c.SecurityContext.Privileged != nil || !slices.Equal(c.SecurityContext.Capabilities.Add, []corev1.Capability{"NET_ADMIN", "NET_RAW"}) {
		t.Errorf("volumes %v, %+v", pod.Spec.Volumes, c.SecurityContext)
	}

	w.kill(pod.UID)
	pod = w.pod("it is made again", "node-1", pod.UID)
	if _, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).Patch(t.Context(), podName, types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	w.kubelet(pod.UID)
	pod = w.pod("one that failed is replaced", "node-1", pod.UID)

	w.ready("node-1", false) // and no kubelet there
	w.service(web, "moved", on("192.0.2.10", "node-2"))
	pod = w.pod("it follows the address from a dead node", "node-2", pod.UID)

	p.Kill()
	w.kill(pod.UID)
	original := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName, Labels: map[string]string{"app": "cloudsigma-lb-ip"}},
		Spec: corev1.PodSpec{NodeName: "node-2", HostNetwork: true, Containers: []corev1.Container{{Name: "lb-config", Image: "praqma/network-multitool:alpine-extra", Command: []string{"sh", "-c", "sleep 1d"}}}}}
	original, err := w.kube.CoreV1().Pods(metav1.NamespaceSystem).Create(t.Context(), original, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.ResetLog()
	p = w.launch("--pod-image", podImage)
	w.kubelet(original.UID)
	pod = w.pod("the original's is replaced in place", "node-2", original.UID)
	if pod.Spec.Containers[0].Image != podImage {
		t.Errorf("image %s", pod.Spec.Containers[0].Image)
	}
	w.has("the cloud is as it was", claimed("192.0.2.10", "default-web", "node-2")...)

	w.delete(web)
	w.kubelet(pod.UID)
	w.has("all is gone")
	p.Kill()
}
