package install

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

const (
	metallbNamespace = "metallb-system"
	standIn          = "test/api/install/testdata/metallb" // a chart like MetalLB's
)

// metallbKinds are all that MetalLB has, and that the chart has where they are
// missing.
var metallbKinds = []string{
	"bfdprofiles.metallb.io", "bgpadvertisements.metallb.io", "bgppeers.metallb.io", "communities.metallb.io", "configurationstates.metallb.io",
	"ipaddresspools.metallb.io", "l2advertisements.metallb.io", "servicebgpstatuses.metallb.io", "servicel2statuses.metallb.io",
}

// world is an API server and the people at its keyboard.
type world struct {
	*testing.T
	api  *sandbox.API
	c    client.Client
	kube string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api, c := startAPI(t)
	kube, err := sandbox.KubeBinary(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, api: api, c: c, kube: kube}
}

func (w *world) helm(args ...string) { w.Helper(); helm(w.T, w.api.Kubeconfig, args...) }

// helmFails wants an error that says so.
func (w *world) helmFails(want string, args ...string) {
	w.Helper()
	if _, err := tryHelm(w.T, w.api.Kubeconfig, args...); err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("helm %v: want an error with %q, got %v", args, want, err)
	}
}

// sh runs a line of the migration guide as it is there.
func (w *world) sh(line string) {
	w.Helper()
	w.guideHas(line)
	w.keyed(line)
}

// keyed runs commands of kubectl and Helm in the root of the tree.
func (w *world) keyed(commands string) {
	w.Helper()
	dir := w.TempDir()
	for name, program := range map[string]string{"kubectl": w.kube, "helm": tree.Tool(w.T, "helm")} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			w.Fatal(err)
		}
	}
	runWith(w.T, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + w.api.Kubeconfig, "HELM_CACHE_HOME=" + w.TempDir()}, "sh", "-ec", commands)
}

// guideHas keeps the guide and its test together: both have the same commands.
func (w *world) guideHas(line string) {
	w.Helper()
	text, err := os.ReadFile(tree.Path("docs/guides/migrate-from-metallb.md"))
	if err != nil {
		w.Fatal(err)
	}
	guide := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", "")), " ")
	if !strings.Contains(guide, line) {
		w.Errorf("the guide does not say %q", line)
	}
}

// kinds returns MetalLB's kinds by name.
func (w *world) kinds() map[string]apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := w.c.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	found := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range list.Items {
		if crd.Spec.Group == "metallb.io" && crd.DeletionTimestamp == nil {
			found[crd.Name] = crd
		}
	}
	return found
}

func (w *world) wantKinds(want []string) {
	w.Helper()
	found := w.kinds()
	for _, name := range want {
		if _, there := found[name]; !there {
			w.Errorf("there is no kind %s", name)
		}
	}
	if len(found) != len(want) {
		w.Errorf("there are %d kinds of MetalLB's, want %d", len(found), len(want))
	}
}

// unchanged wants kinds to be as somebody else has made them.
func (w *world) unchanged(before map[string]apiextensionsv1.CustomResourceDefinition, when string) {
	w.Helper()
	after := w.kinds()
	for name, was := range before {
		is, there := after[name]
		if !there || is.UID != was.UID || is.Generation != was.Generation || is.Labels["app.kubernetes.io/name"] == "fairlead" {
			w.Errorf("%s: %s is not as it was: generation %d, was %d, labels %v", when, name, is.Generation, was.Generation, is.Labels)
		}
	}
}

func poolObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
		"metadata": map[string]any{"namespace": metallbNamespace, "name": name},
		"spec":     map[string]any{"addresses": []any{"192.0.2.0/28"}},
	}}
}

// createPool makes an IPAddressPool as soon as the kind is served.
func (w *world) createPool(name string) *unstructured.Unstructured {
	w.Helper()
	pool := poolObject(name)
	eventually(w.T, "an IPAddressPool can be made", func(ctx context.Context) error { return w.c.Create(ctx, pool) })
	return pool
}

func (w *world) kept(pool *unstructured.Unstructured) {
	w.Helper()
	is := poolObject(pool.GetName())
	if err := w.c.Get(w.Context(), client.ObjectKeyFromObject(pool), is); err != nil || is.GetUID() != pool.GetUID() {
		w.Errorf("the pool is not kept: %v", err)
	}
}

// later is a chart of a later version.
func later(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fairlead")
	if err := os.CopyFS(dir, os.DirFS(tree.Path("charts/fairlead"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "version: ", "version: 9", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Where MetalLB's kinds are missing the chart has them, upgrades them, and keeps
// them and everybody's pools when it goes.
func TestMetalLBKindsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := []string{"--namespace", metallbNamespace}
	w.helm(append(in, "install", "metallb", "charts/fairlead", "--create-namespace", "--set", "loadBalancerClass=metallb")...)
	w.wantKinds(metallbKinds)
	pool := w.createPool("edge")

	w.helm(append(in, "upgrade", "metallb", later(t), "--set", "loadBalancerClass=metallb")...)
	for name, crd := range w.kinds() {
		if chart := crd.Labels["helm.sh/chart"]; !strings.HasPrefix(chart, "fairlead-9") {
			t.Errorf("%s was not upgraded: it is of chart %s", name, chart)
		}
	}
	w.helm(append(in, "upgrade", "metallb", "charts/fairlead", "--set", "metallb.crds=false")...)
	w.wantKinds(metallbKinds)
	w.helm(append(in, "upgrade", "metallb", "charts/fairlead")...)
	w.helm(append(in, "uninstall", "metallb", "--wait")...)
	w.wantKinds(metallbKinds)
	w.kept(pool)

	w.helm(append(in, "install", "metallb", "charts/fairlead")...) // again
	w.wantKinds(metallbKinds)
	w.helm(append(in, "uninstall", "metallb", "--wait")...)

	// Under another name they are another's. Our own kinds were kept, too.
	before := w.kinds()
	w.helm("install", "fairlead", "charts/fairlead", "--namespace", namespace, "--create-namespace")
	after := w.kinds()
	for name, was := range before {
		if is := after[name]; is.ResourceVersion != was.ResourceVersion {
			t.Errorf("%s was changed by another release", name)
		}
	}
	w.kept(pool)
}

// Kinds that somebody else has installed stay as they are, whatever is done with
// the chart.
func TestMetalLBKindsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run(t, w.kube, "kubectl", "--kubeconfig", w.api.Kubeconfig, "create", "namespace", metallbNamespace)
	manifest := render(t, standIn, "--show-only", "charts/crds/templates/crds.yaml")
	path := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, w.kube, "kubectl", "--kubeconfig", w.api.Kubeconfig, "create", "--filename", path)
	pool, before := w.createPool("edge"), w.kinds()

	in := []string{"--namespace", metallbNamespace}
	w.helm(append(in, "install", "fairlead", "charts/fairlead")...)
	w.unchanged(before, "installed")
	w.helm(append(in, "upgrade", "fairlead", later(t))...)
	w.unchanged(before, "upgraded")
	w.helm(append(in, "upgrade", "fairlead", "charts/fairlead", "--set", "metallb.crds=false")...)
	w.unchanged(before, "without kinds")
	w.helm(append(in, "uninstall", "fairlead", "--wait")...)
	w.unchanged(before, "uninstalled")

	// Without Helm: what is there stays, what is missing is made.
	gone := before["servicel2statuses.metallb.io"]
	if err := w.c.Delete(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kind is gone", func(ctx context.Context) error {
		if err := w.c.Get(ctx, client.ObjectKey{Name: gone.Name}, &apiextensionsv1.CustomResourceDefinition{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %q", fmt.Sprint(err))
		}
		return nil
	})
	_, err := try(t, nil, w.kube, "kubectl", "--kubeconfig", w.api.Kubeconfig, "create", "--filename", "deploy/metallb-crds.yaml")
	if err == nil || strings.Count(err.Error(), "already exists") != len(metallbKinds)-1 {
		t.Errorf("kubectl create says %v", err)
	}
	delete(before, gone.Name)
	w.unchanged(before, "kubectl create")
	w.sh("kubectl apply -f deploy/metallb.yaml")
	w.sh("kubectl delete -f deploy/metallb.yaml --selector app.kubernetes.io/name=fairlead")
	for _, left := range everything(t, w.c) {
		if strings.Contains(left, "fairlead") {
			t.Errorf("there is still %s", left)
		}
	}
	w.wantKinds(metallbKinds)
	w.kept(pool)
}

// installMetalLB makes a release like MetalLB's own, with a pool, and the webhook
// that refuses every change once nobody answers for it.
func (w *world) installMetalLB() (pool *unstructured.Unstructured) {
	w.Helper()
	w.helm("install", "metallb", standIn, "--namespace", metallbNamespace, "--create-namespace", "--set", "webhook=false")
	pool = w.createPool("edge")
	w.helm("upgrade", "metallb", standIn, "--namespace", metallbNamespace, "--set", "webhook=true")
	eventually(w.T, "the webhook refuses", func(ctx context.Context) error {
		if err := w.c.Create(ctx, poolObject("other"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "webhook") {
			return fmt.Errorf("it says %q", fmt.Sprint(err))
		}
		return nil
	})
	return pool
}

// The guide's way from a release of MetalLB's, and back.
func TestReplaceMetalLBRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool, before := w.installMetalLB(), w.kinds()

	w.sh("kubectl annotate --overwrite $(kubectl get crd -o name | grep metallb.io) helm.sh/resource-policy=keep")
	w.guideHas("helm upgrade metallb metallb/metallb --namespace metallb-system --reuse-values --set crds.enabled=false")
	w.helm("upgrade", "metallb", standIn, "--namespace", metallbNamespace, "--reuse-values", "--set", "crds.enabled=false")
	w.unchanged(before, "without kinds in the release")
	w.sh("kubectl scale --namespace metallb-system deployment/metallb-controller --replicas=0")
	w.sh("kubectl delete validatingwebhookconfiguration metallb-webhook-configuration")
	w.guideHas("helm install fairlead charts/fairlead --namespace metallb-system")
	w.helm("install", "fairlead", "charts/fairlead", "--namespace", metallbNamespace)
	w.sh("kubectl get daemonset --namespace metallb-system --selector app.kubernetes.io/component=speaker")
	w.guideHas("helm uninstall metallb --namespace metallb-system")
	w.helm("uninstall", "metallb", "--namespace", metallbNamespace, "--wait")
	w.unchanged(before, "MetalLB uninstalled")
	w.wantKinds(metallbKinds)
	w.kept(pool)
	eventually(t, "pools can be changed", func(ctx context.Context) error { return w.c.Create(ctx, poolObject("other"), client.DryRunAll) })

	w.sh("kubectl scale --namespace metallb-system deployment/fairlead-controller --replicas=0")
	w.guideHas("helm install metallb metallb/metallb --namespace metallb-system --take-ownership")
	w.helm("install", "metallb", standIn, "--namespace", metallbNamespace, "--take-ownership")
	w.guideHas("helm uninstall fairlead --namespace metallb-system")
	w.helm("uninstall", "fairlead", "--namespace", metallbNamespace, "--wait")
	w.wantKinds(metallbKinds)
	w.kept(pool)
}

// Without MetalLB's chart at hand Helm is made to forget the release.
func TestForgetMetalLBRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool, before := w.installMetalLB(), w.kinds()
	w.sh("kubectl annotate --overwrite $(kubectl get crd -o name | grep metallb.io) helm.sh/resource-policy=keep")
	w.sh("kubectl delete secret --namespace metallb-system --selector owner=helm,name=metallb")
	w.sh("kubectl delete validatingwebhookconfiguration metallb-webhook-configuration")
	// The name is free, also for ours.
	w.helm("install", "metallb", "charts/fairlead", "--namespace", metallbNamespace)
	w.sh("kubectl delete daemonset,deployment,service,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,poddisruptionbudget --all-namespaces --selector app.kubernetes.io/name=metallb")
	w.unchanged(before, "MetalLB deleted")
	w.helm("upgrade", "metallb", later(t), "--namespace", metallbNamespace)
	w.helm("uninstall", "metallb", "--namespace", metallbNamespace, "--wait")
	w.unchanged(before, "ours uninstalled")
	w.kept(pool)
}

// A tool that exchanges the chart of a release for another, as those do that have
// a release in a file, would have Helm delete the kinds. The chart does not let it.
func TestMetalLBReleaseTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool, before := w.installMetalLB(), w.kinds()
	over := []string{"upgrade", "--install", "metallb", "charts/fairlead", "--namespace", metallbNamespace, "--reset-values", "--set", "loadBalancerClass=metallb"}
	w.helmFails("kubectl annotate crd "+strings.Join(metallbKinds, " ")+" helm.sh/resource-policy=keep", over...)
	w.unchanged(before, "refused")
	w.kept(pool)
	w.sh("kubectl annotate --overwrite $(kubectl get crd -o name | grep metallb.io) helm.sh/resource-policy=keep")
	w.helm(over...)
	w.helm(over...) // again
	w.unchanged(before, "taken over")
	w.kept(pool)
	var hooks admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := w.c.List(t.Context(), &hooks); err != nil || len(hooks.Items) > 0 {
		t.Errorf("there are %d webhook configurations (%v)", len(hooks.Items), err)
	}
	w.helm("uninstall", "metallb", "--namespace", metallbNamespace, "--wait")
	w.unchanged(before, "uninstalled")
	w.kept(pool)
}

// What the guide warns of: Helm looks for the annotation in what it has stored
// when it uninstalls, not on the object.
func TestHelmForgetsWhatIsOnlyOnTheObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installMetalLB()
	w.sh("kubectl annotate --overwrite $(kubectl get crd -o name | grep metallb.io) helm.sh/resource-policy=keep")
	w.helm("uninstall", "metallb", "--namespace", metallbNamespace, "--wait")
	w.wantKinds(nil)
}

// What the chart installs in MetalLB's place carries the labels and flags that
// MetalLB's people and manifests use.
func TestInMetalLBsPlace(t *testing.T) {
	t.Parallel()
	out := render(t, "metallb", "charts/fairlead", "--namespace", metallbNamespace,
		"--set", "loadBalancerClass=metallb", "--set", "metallb.labels=true")
	all, err := objects([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, o := range all {
		if !slices.Contains([]string{"Deployment", "DaemonSet"}, o.GetKind()) {
			continue
		}
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		component := o.GetLabels()["app.kubernetes.io/component"]
		found[component] = true
		if !strings.HasSuffix(o.GetName(), "-"+component) {
			t.Errorf("the pods of the %s are called %s", component, o.GetName())
		}
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if labels["app"] != "metallb" || labels["component"] != component || labels["app.kubernetes.io/component"] != component || selector["app"] != "" {
			t.Errorf("pods of the %s have labels %v, selected by %v", component, labels, selector)
		}
		for _, flag := range []string{`"--lb-class=metallb"`, `"--metallb-namespace=metallb-system"`} {
			if !strings.Contains(string(raw), flag) {
				t.Errorf("the %s has no %s", component, flag)
			}
		}
	}
	if len(found) != 2 || !found["controller"] || !found["speaker"] {
		t.Errorf("components are %v, want controller and speaker", found)
	}
}
