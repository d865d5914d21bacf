package cloudsigma

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/tree"
)

// The chart's Deployment outside of the cluster: the program, started with the arguments,
// variables and files that the chart renders, serves another cluster by its kubeconfig.
func TestOutsideOfTheCluster(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	if err := theRig.Client.DeleteAllOf(t.Context(), &v1alpha1.Agent{}); err != nil {
		t.Fatal(err)
	}
	deployment, config := rendered(t, "cloudsigma.apiEndpoint="+w.url+"/api/2.0",
		fmt.Sprintf("controller.healthPort=%d", freePort(t)), fmt.Sprintf("controller.metricsPort=%d", freePort(t)))
	if deployment.Name != "csccm-metal" {
		t.Errorf("the Deployment is %s", deployment.Name)
	}
	secrets := map[string]map[string]string{
		"cloudsigma-impersonation": {"oauth-url": w.url, "client-id": "fairlead", "client-secret": w.Token()},
		"metal-admin-kubeconfig":   {"admin.conf": w.kubeconfig("outside")},
	}
	p := process.Start(t, w.container(&deployment.Spec.Template.Spec, secrets, config))
	web := w.service(w.create("web"), "is served", on("192.0.2.10", "node-1"))
	pod := w.pod("there is a pod", "node-1", "")
	if image := pod.Spec.Containers[0].Image; image != "registry.example/fairlead:v9" {
		t.Errorf("image %s", image)
	}
	w.has("claimed and attached", claimedBy("metal", "192.0.2.10", "default-web", "node-1")...)
	w.delete(web)
	w.kubelet(pod.UID)
	w.has("all is gone")
	p.Kill()
}

// rendered are the Deployment and the ConfigMap of the chart, as for
// testdata/cloudsigmaoutside.yaml, and with further values.
func rendered(t *testing.T, values ...string) (d appsv1.Deployment, c corev1.ConfigMap) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools.mod", "helm", "template", "fairlead", "charts/fairlead", "--namespace", "fairlead-system",
		"--values", "charts/fairlead/testdata/cloudsigmaoutside.values.yaml", "--set", strings.Join(values, ","))
	cmd.Dir, cmd.Env = tree.Path(), append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	for _, document := range strings.Split(string(out), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var into any
		switch kind.Kind {
		case "Deployment":
			into = &d
		case "ConfigMap":
			into = &c
		default:
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatal(err)
		}
	}
	return d, c
}

// container is the command of a pod's only container. Its files are in a directory of
// the test, so paths begin with that.
func (w *world) container(pod *corev1.PodSpec, secrets map[string]map[string]string, config corev1.ConfigMap) *exec.Cmd {
	w.t.Helper()
	c, dir := &pod.Containers[0], w.t.TempDir()
	var paths []string
	for _, m := range c.VolumeMounts {
		volume := &pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })]
		files := map[string]string{}
		switch {
		case volume.ConfigMap != nil && volume.ConfigMap.Name == config.Name:
			files = config.Data
		case volume.Secret != nil:
			for _, item := range volume.Secret.Items {
				files[item.Path] = value(w.t, secrets, volume.Secret.SecretName, item.Key)
			}
		default:
			w.t.Fatalf("volume %+v", volume)
		}
		for name, text := range files {
			path := filepath.Join(dir, m.MountPath, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				w.t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
		paths = append(paths, m.MountPath, filepath.Join(dir, m.MountPath))
	}
	here := strings.NewReplacer(paths...)
	cmd := exec.Command(tree.Binary(w.t, "fairlead"))
	for _, arg := range c.Args {
		cmd.Args = append(cmd.Args, here.Replace(arg))
	}
	cmd.Env = []string{}
	for _, e := range c.Env {
		text := e.Value
		if from := e.ValueFrom; from != nil {
			text = value(w.t, secrets, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
		}
		cmd.Env = append(cmd.Env, e.Name+"="+here.Replace(text))
	}
	return cmd
}

func value(t *testing.T, secrets map[string]map[string]string, name, key string) string {
	t.Helper()
	text, ok := secrets[name][key]
	if !ok {
		t.Fatalf("no key %s in Secret %s", key, name)
	}
	return text
}

// kubeconfig is one for a service account of its own, which may do everything.
func (w *world) kubeconfig(name string) string {
	w.t.Helper()
	ctx, kube := w.t.Context(), w.kube
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}}}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	token, err := kube.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(theRig.API.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = name
	out, err := clientcmd.Write(*config)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
