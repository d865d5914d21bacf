package install

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

const namespace = "fairlead-system"

// port is a free one for a release under test: in a pod it would be the pod's own.
func port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(rig.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A release is installed with no values but its ports, and with the page; the
// controller is started as the Deployment says, with the rights of the release's
// service account, and does its work; then the release is uninstalled, and
// nothing stays but what was promised.
func TestRelease(t *testing.T) {
	t.Parallel()
	api, c := startAPI(t)
	before := everything(t, c)
	healthPort, metricsPort, pagePort := port(t), port(t), port(t)
	helm(t, api.Kubeconfig, "install", "fairlead", "charts/fairlead", "--namespace", namespace, "--create-namespace",
		"--set", "controller.healthPort="+healthPort, "--set", "controller.metricsPort="+metricsPort,
		"--set", "page.enabled=true", "--set", "page.port="+pagePort)
	awaitKinds(t, c)

	log := startAsDeployed(t, api, c)
	eventually(t, "it is ready", func(ctx context.Context) error {
		return get(ctx, "http://127.0.0.1:"+healthPort+"/readyz", "", http.StatusOK)
	})
	servesAService(t, c)
	answersReadersOnly(t, c, "https://127.0.0.1:"+metricsPort+"/metrics", "fairlead-metrics-reader")
	page := "https://127.0.0.1:" + pagePort + "/page/"
	if err := get(t.Context(), page, "", http.StatusOK); err != nil { // it has no data
		t.Error(err)
	}
	answersReadersOnly(t, c, page+"data/changes", "fairlead-page-reader")
	agentsMayDoLittle(t, c)
	peopleSeePoolsAndAgents(t, c)
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the chart's rights do not suffice:\n%s", log)
	}

	helm(t, api.Kubeconfig, "uninstall", "fairlead", "--namespace", namespace, "--wait")
	kept := []string{"CustomResourceDefinition pools.fairlead.io", "CustomResourceDefinition agents.fairlead.io"} // crds.keep
	for _, name := range metallbKinds {
		kept = append(kept, "CustomResourceDefinition "+name)
	}
	for _, left := range everything(t, c) {
		if !slices.Contains(before, left) && !slices.Contains(kept, left) {
			t.Errorf("after helm uninstall there is still %s", left)
		}
	}
	var pool v1alpha1.Pool
	if err := c.Get(t.Context(), client.ObjectKey{Name: "edge"}, &pool); err != nil {
		t.Errorf("pools are kept: %v", err)
	}
}

// startAsDeployed runs the controller as the Deployment says until the test ends.
func startAsDeployed(t *testing.T, api *sandbox.API, c client.Client) *process.Log {
	t.Helper()
	return process.Start(t, exec.Command(tree.Binary(t, "fairlead"), asDeployed(t, api, c)...)).Log
}

// asDeployed returns the arguments that the Deployment has for the controller, with its
// configuration and its service account outside of a pod.
func asDeployed(t *testing.T, api *sandbox.API, c client.Client) []string {
	t.Helper()
	dir := t.TempDir()
	var deployment appsv1.Deployment
	var configuration corev1.ConfigMap
	if err := errors.Join(
		c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fairlead-controller"}, &deployment),
		c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fairlead"}, &configuration),
	); err != nil {
		t.Fatal(err)
	}
	for name, text := range configuration.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := deployment.Spec.Template.Spec
	var args []string
	for _, arg := range pod.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, pod.Containers[0].VolumeMounts[0].MountPath, dir))
	}
	return append(args, "--namespace="+namespace, "--leader-elect-namespace="+namespace,
		"--kubeconfig="+kubeconfigOf(t, api, c, namespace, pod.ServiceAccountName, filepath.Join(dir, "kubeconfig")))
}

// kubeconfigOf writes a kubeconfig with which path's reader is a service account.
func kubeconfigOf(t *testing.T, api *sandbox.API, c client.Client, namespace, account, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(api.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {Token: tokenOf(t, c, namespace, account)}}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokenOf(t *testing.T, c client.Client, namespace, account string) string {
	t.Helper()
	request := authenticationv1.TokenRequest{}
	err := c.SubResource("token").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, &request)
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// servesAService sees everything written that the controller writes.
func servesAService(t *testing.T, c client.Client) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}
	if err := errors.Join(c.Create(t.Context(), pool), c.Create(t.Context(), service)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service has an address", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(service), service)
		if in := service.Status.LoadBalancer.Ingress; err == nil && (len(in) != 1 || in[0].IP != "192.0.2.0") {
			err = fmt.Errorf("it has %v", in)
		}
		return err
	})
	eventually(t, "the pool's status says so", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		if err == nil && pool.Status.Used != "1" {
			err = fmt.Errorf("used is %q", pool.Status.Used)
		}
		return err
	})
	eventually(t, "an event says so", func(ctx context.Context) error {
		var events corev1.EventList
		err := c.List(ctx, &events, client.InNamespace("default"))
		if err == nil && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == "Ready" && e.InvolvedObject.Name == "web" }) {
			err = fmt.Errorf("there are %d other events", len(events.Items))
		}
		return err
	})
	eventually(t, "the agents have a key", func(ctx context.Context) error {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "fairlead-gossip"}, &secret)
		if err == nil && len(secret.Data["key"]) != 32 {
			err = fmt.Errorf("it has %d bytes", len(secret.Data["key"]))
		}
		return err
	})
	if err := c.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// agentsMayDoLittle asks the API server what an agent may do with its account.
// That it suffices is seen where agents run: TestClusterWithFairlead.
func agentsMayDoLittle(t *testing.T, c client.Client) {
	t.Helper()
	for ask, want := range map[authorizationv1.ResourceAttributes]bool{
		{Verb: "patch", Group: "fairlead.io", Resource: "agents", Subresource: "status"}:                                      true,
		{Verb: "create", Resource: "events", Namespace: "default"}:                                                            true,
		{Verb: "get", Resource: "secrets", Namespace: namespace, Name: "fairlead-gossip"}:                                     true,
		{Verb: "get", Resource: "secrets", Namespace: namespace, Name: "another"}:                                             false,
		{Verb: "get", Resource: "secrets", Namespace: "default", Name: "fairlead-gossip"}:                                     false,
		{Verb: "list", Resource: "secrets", Namespace: namespace}:                                                             false,
		{Verb: "update", Resource: "secrets", Namespace: namespace, Name: "fairlead-gossip"}:                                  false,
		{Verb: "create", Resource: "secrets", Namespace: namespace}:                                                           false,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: "fairlead-controller"}: false,
		{Verb: "patch", Resource: "services", Namespace: "default"}:                                                           false,
		{Verb: "patch", Resource: "services", Subresource: "status", Namespace: "default"}:                                    false,
		{Verb: "patch", Resource: "nodes"}:                                                                                    false,
		{Verb: "patch", Resource: "nodes", Subresource: "status"}:                                                             false,
		{Verb: "list", Resource: "pods"}:                                                                                      false,
		{Verb: "patch", Group: "fairlead.io", Resource: "pools"}:                                                              false,
		{Verb: "create", Group: "metallb.io", Resource: "servicel2statuses", Namespace: "metallb-system"}:                     true,
		{Verb: "patch", Group: "metallb.io", Resource: "ipaddresspools", Subresource: "status", Namespace: "metallb-system"}:  false,
		{Verb: "update", Group: "metallb.io", Resource: "l2advertisements", Namespace: "metallb-system"}:                      false,
		{Verb: "delete", Group: "fairlead.io", Resource: "agents"}:                                                            false,
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":fairlead-agent", ResourceAttributes: &ask,
		}}
		if err := c.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != want {
			t.Errorf("an agent may %s %s/%s %s/%s: %t, want %t", ask.Verb, ask.Resource, ask.Subresource, ask.Namespace, ask.Name, review.Status.Allowed, want)
		}
	}
}

// peopleSeePoolsAndAgents: who may view or edit everything in the cluster may do so with
// Pools and Agents; nobody but Fairlead writes Agents, and rights in one namespace are none
// to objects without one.
func peopleSeePoolsAndAgents(t *testing.T, c client.Client) {
	t.Helper()
	for _, role := range []string{"view", "edit", "admin"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "people-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}
		if err := c.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Delete(context.Background(), binding) }()
	}
	tenant := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	}
	if err := c.Create(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Delete(context.Background(), tenant) }()
	type ask struct{ user, verb, resource string }
	for a, want := range map[ask]bool{
		{"view", "list", "pools"}: true, {"view", "list", "agents"}: true, {"view", "patch", "pools"}: false,
		{"edit", "list", "agents"}: true, {"edit", "patch", "pools"}: true, {"edit", "delete", "pools"}: true, {"edit", "patch", "agents"}: false,
		{"admin", "create", "pools"}: true, {"admin", "delete", "agents"}: false,
		{"tenant", "list", "pools"}: false, {"tenant", "patch", "pools"}: false,
	} {
		eventually(t, fmt.Sprintf("%s may %s %s: %t", a.user, a.verb, a.resource, want), func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: a.user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: a.verb, Group: "fairlead.io", Resource: a.resource},
			}}
			if err := c.Create(ctx, review); err != nil {
				return err
			}
			if review.Status.Allowed != want {
				return fmt.Errorf("allowed: %t", review.Status.Allowed)
			}
			return nil
		})
	}
}

// answersReadersOnly: a URL is answered to those who have a role, and to nobody else.
func answersReadersOnly(t *testing.T, c client.Client, url, role string) {
	t.Helper()
	scraper := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scraper"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "scraper"}},
	}
	if err := errors.Join(c.Create(t.Context(), scraper), c.Create(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	token := tokenOf(t, c, namespace, "scraper")
	if err := get(t.Context(), url, "", http.StatusUnauthorized); err != nil {
		t.Error(err)
	}
	if err := get(t.Context(), url, tokenOf(t, c, namespace, "fairlead"), http.StatusForbidden); err != nil {
		t.Error(err)
	}
	eventually(t, "a reader gets "+url, func(ctx context.Context) error { return get(ctx, url, token, http.StatusOK) })
	if err := errors.Join(c.Delete(t.Context(), scraper), c.Delete(t.Context(), binding)); err != nil {
		t.Error(err)
	}
}

// get wants one answer from a URL.
func get(ctx context.Context, url, token string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		body, err := io.ReadAll(io.LimitReader(response.Body, 200))
		return errors.Join(fmt.Errorf("GET %s: %s: %s", url, response.Status, body), err)
	}
	return nil // the body may have no end
}

// everything lists what a release could leave behind.
func everything(t *testing.T, c client.Client) []string {
	t.Helper()
	found, err := rig.Everything(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
