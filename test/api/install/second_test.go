package install

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A second release, for another class, leaves the CRDs of the first alone, from its install
// to its end. A release under another name installs with CRDs that were kept, and takes them
// over with the command of its notes.
func TestSecondRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crds := []string{"pools.fairlead.io", "agents.fairlead.io"}
	read := func() map[string]apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		found := map[string]apiextensionsv1.CustomResourceDefinition{}
		for _, name := range crds {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := w.c.Get(t.Context(), client.ObjectKey{Name: name}, &crd); err != nil {
				t.Fatal(err)
			}
			found[name] = crd
		}
		return found
	}
	var before map[string]apiextensionsv1.CustomResourceDefinition
	same := func(when string) {
		t.Helper()
		for name, is := range read() {
			if was := before[name]; is.UID != was.UID || is.Generation != was.Generation || is.Labels["helm.sh/chart"] != was.Labels["helm.sh/chart"] || is.Labels["app.kubernetes.io/instance"] != was.Labels["app.kubernetes.io/instance"] {
				t.Errorf("%s: %s was changed: labels %v, were %v", when, name, is.Labels, was.Labels)
			}
		}
	}
	first := []string{"--namespace", namespace}
	second := []string{"--namespace", "edge", "--set", "classes[0].name=example.com/edge"}

	w.helm(append(first, "install", "fairlead", "charts/fairlead", "--create-namespace")...)
	before = read()
	said := helm(t, w.api.Kubeconfig, append(second, "install", "edge", "charts/fairlead", "--create-namespace")...)
	if want := "belong to release fairlead in namespace " + namespace; !strings.Contains(said, want) {
		t.Errorf("the notes of the second release do not say %q:\n%s", want, said)
	}
	same("the second release is installed")
	w.helm(append(second, "upgrade", "edge", later(t))...)
	same("the second release is upgraded")

	said = helm(t, w.api.Kubeconfig, append(first, "upgrade", "fairlead", later(t))...)
	if strings.Contains(said, "belong to release") {
		t.Errorf("the first release does not know its CRDs:\n%s", said)
	}
	for name, crd := range read() {
		if chart := crd.Labels["helm.sh/chart"]; !strings.HasPrefix(chart, "fairlead-9") || crd.UID != before[name].UID {
			t.Errorf("%s was not upgraded with its release: it is of chart %s", name, chart)
		}
	}
	before = read()
	w.helm("uninstall", "edge", "--namespace", "edge", "--wait")
	same("the second release is uninstalled")

	// Under another name, as soon as the first release is gone.
	w.helm("uninstall", "fairlead", "--namespace", namespace, "--wait")
	same("the first release is uninstalled")
	said = helm(t, w.api.Kubeconfig, append(first, "install", "lan", "charts/fairlead")...)
	same("a release under another name is installed")
	_, after, found := strings.Cut(said, "give them to this one and upgrade:\n\n")
	commands, _, ends := strings.Cut(after, "\n\n")
	if !found || !ends {
		t.Fatalf("the notes do not say how to take over the CRDs:\n%s", said)
	}
	w.keyed(commands)
	for name, crd := range read() {
		if crd.Labels["app.kubernetes.io/instance"] != "lan" || strings.HasPrefix(crd.Labels["helm.sh/chart"], "fairlead-9") || crd.UID != before[name].UID {
			t.Errorf("%s was not taken over: it has %v", name, crd.Labels)
		}
	}
}
