package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/tree"
)

const (
	providerManifest  = "test/api/install/testdata/kube-vip-provider.yaml"
	providerNamespace = "kube-system"
	provider          = "kube-vip-cloud-provider"
)

// deploy/kube-vip.yaml replaces the manifest of kube-vip's cloud provider however
// that was installed, and that one replaces ours.
func TestProviderIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubectl := func(args ...string) {
		t.Helper()
		run(t, w.kube, append([]string{"kubectl", "--kubeconfig", w.api.Kubeconfig}, args...)...)
	}
	deployed := func() (d appsv1.Deployment) {
		t.Helper()
		if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: providerNamespace, Name: provider}, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, installed := range []string{"apply", "create"} {
		kubectl(installed, "--filename", providerManifest)
		kubectl("set", "env", "--namespace", providerNamespace, "deployment/"+provider, "KUBEVIP_ENABLE_LOADBALANCERCLASS=true")
		theirs := deployed()
		kubectl("apply", "--filename", "deploy/kube-vip.yaml")
		pod := deployed().Spec.Template.Spec
		if len(pod.Containers) != 1 || !slices.Equal(pod.Containers[0].Command, []string{"/fairlead"}) || pod.Containers[0].Args[0] != "controller" || pod.ServiceAccountName != "kube-vip-cloud-controller" {
			t.Fatalf("installed by %s, then replaced: %+v", installed, pod)
		}
		if env := pod.Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "KUBEVIP_ENABLE_LOADBALANCERCLASS", Value: "true"}) || !slices.Contains(env, corev1.EnvVar{Name: "KUBEVIP_NAMESPACE", Value: "kube-system"}) {
			t.Errorf("installed by %s, then replaced: its environment is %v", installed, env)
		}
		kubectl("apply", "--filename", providerManifest)
		back := deployed()
		if diff := cmp.Diff(theirs.Spec.Template.Spec.Containers[0].Command, back.Spec.Template.Spec.Containers[0].Command); diff != "" || len(back.Spec.Template.Spec.Containers[0].Args) > 0 || len(back.Spec.Template.Spec.Containers) != 1 {
			t.Errorf("installed by %s, replaced, and back: %+v", installed, back.Spec.Template.Spec.Containers)
		}
		w.mayProvide(t, map[authorizationv1.ResourceAttributes]bool{
			{Verb: "update", Resource: "configmaps", Namespace: "default"}: true, // it has its old rights again
		})
		kubectl("delete", "--filename", providerManifest)
		kubectl("delete", "--filename", "deploy/kube-vip.yaml", "--ignore-not-found")
	}
}

// In the place of kube-vip's cloud provider the controller does its work with the
// rights of the manifest, and without any kind of ours.
func TestProviderWithItsRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run(t, w.kube, "kubectl", "--kubeconfig", w.api.Kubeconfig, "apply", "--filename", "deploy/kube-vip.yaml")
	log := w.startProvider()
	pools := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: providerNamespace, Name: "kubevip"},
		Data: map[string]string{"range-global": "192.0.2.7-192.0.2.9", "range-bad": "nothing"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := w.c.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says why it waits", func(ctx context.Context) error {
		err := w.c.Get(ctx, client.ObjectKeyFromObject(service), service)
		if err == nil && service.Annotations["fairlead.io/reason"] == "" {
			err = fmt.Errorf("its annotations are %v", service.Annotations)
		}
		return err
	})
	if err := w.c.Create(t.Context(), pools); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service has an address, for kube-vip", func(ctx context.Context) error {
		err := w.c.Get(ctx, client.ObjectKeyFromObject(service), service)
		if err == nil && (service.Annotations["kube-vip.io/loadbalancerIPs"] != "192.0.2.7" || service.Spec.LoadBalancerIP != "192.0.2.7" ||
			service.Labels["implementation"] != "kube-vip" || len(service.Finalizers) != 1 || service.Annotations["fairlead.io/reason"] != "" || len(service.Status.Conditions) > 0 || len(service.Status.LoadBalancer.Ingress) > 0) {
			err = fmt.Errorf("it is %+v", service)
		}
		return err
	})
	eventually(t, "events say so, and what is wrong with the ConfigMap", func(ctx context.Context) error {
		var events corev1.EventList
		err := w.c.List(ctx, &events)
		for _, about := range []string{"Service EnsuredLoadBalancer", "ConfigMap KeyInvalid"} {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Kind+" "+e.Reason == about }) {
				err = errors.Join(err, fmt.Errorf("no event %s", about))
			}
		}
		return err
	})
	if err := w.c.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted Service goes", func(ctx context.Context) error {
		err := w.c.Get(ctx, client.ObjectKeyFromObject(service), service)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	var lease coordinationv1.Lease
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: providerNamespace, Name: "kube-vip-cloud-controller"}, &lease); err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		t.Errorf("the Lease of kube-vip's cloud provider: %v, %v", lease.Spec, err)
	}
	if text := log.String(); strings.Contains(text, "forbidden") || strings.Contains(text, `"ERROR"`) {
		t.Errorf("the manifest's rights do not suffice:\n%s", text)
	}
	w.mayProvide(t, map[authorizationv1.ResourceAttributes]bool{
		{Verb: "watch", Resource: "configmaps", Namespace: providerNamespace, Name: "kubevip"}:                                   true,
		{Verb: "get", Resource: "configmaps", Namespace: providerNamespace, Name: "another"}:                                     false,
		{Verb: "get", Resource: "configmaps", Namespace: "default", Name: "kubevip"}:                                             false,
		{Verb: "update", Resource: "configmaps", Namespace: providerNamespace, Name: "kubevip"}:                                  false,
		{Verb: "patch", Resource: "services", Namespace: "default"}:                                                              true,
		{Verb: "delete", Resource: "services", Namespace: "default"}:                                                             false,
		{Verb: "patch", Resource: "nodes"}:                                                                                       false,
		{Verb: "get", Resource: "secrets", Namespace: providerNamespace}:                                                         false,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: providerNamespace, Name: "kube-scheduler"}: false,
	})
}

// mayProvide asks the API server what the provider's account may do.
func (w *world) mayProvide(t *testing.T, asks map[authorizationv1.ResourceAttributes]bool) {
	t.Helper()
	for ask, want := range asks {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + providerNamespace + ":kube-vip-cloud-controller", ResourceAttributes: &ask}}
		if err := w.c.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != want {
			t.Errorf("the provider may %s %s/%s %s/%s: %t, want %t", ask.Verb, ask.Resource, ask.Subresource, ask.Namespace, ask.Name, review.Status.Allowed, want)
		}
	}
}

// startProvider runs the controller with the arguments and the environment of the
// Deployment, as its service account, until the test ends.
func (w *world) startProvider() *process.Log {
	w.Helper()
	dir := w.TempDir()
	var deployment appsv1.Deployment
	if err := w.c.Get(w.Context(), client.ObjectKey{Namespace: providerNamespace, Name: provider}, &deployment); err != nil {
		w.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	binary, healthPort := tree.Binary(w, "fairlead"), port(w.T)
	args := append(slices.Clone(pod.Containers[0].Args), "--health-address=127.0.0.1:"+healthPort, "--metrics-address=127.0.0.1:"+port(w.T),
		"--kubeconfig="+kubeconfigOf(w.T, w.api, w.c, providerNamespace, pod.ServiceAccountName, filepath.Join(dir, "kubeconfig")))
	cmd := exec.Command(binary, args...)
	cmd.Env = os.Environ()
	for _, e := range pod.Containers[0].Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	log := process.Start(w, cmd).Log
	eventually(w.T, "it is ready", func(ctx context.Context) error {
		return get(ctx, "http://127.0.0.1:"+healthPort+"/readyz", "", http.StatusOK)
	})
	return log
}
