package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/registry"
	"fairlead.io/test/kit/smalltree"
	"fairlead.io/test/kit/tree"
)

// A release is created and uploaded, and Helm installs its chart from the registry, with no
// values, as the notes of the release say: pods run the image of the release, by its digest.
func TestInstallFromRegistry(t *testing.T) {
	const user, password = "releaser", "s3cret"
	server := registry.Start(t, user, password)
	program, dir := tree.Binary(t, "release"), smalltree.New(t)
	for _, args := range [][]string{
		{"FAIRLEAD_REGISTRY=" + server.Host + "/fairlead", "FAIRLEAD_DOWNLOADS=https://downloads.example", "create", "minor"},
		{"FAIRLEAD_REGISTRY_USER=" + user, "FAIRLEAD_REGISTRY_PASSWORD=" + password, "upload"},
	} {
		if out, err := smalltree.Run(t, program, dir, args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var release struct{ Image, Chart struct{ Name, Digest string } }
	content, err := os.ReadFile(filepath.Join(dir, "dist", "release.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &release); err != nil {
		t.Fatal(err)
	}

	api, c := startAPI(t)
	files := filepath.Join(dir, "dist", "files")
	out := followNotes(t, api.Kubeconfig, files, "--plain-http", "--username", user, "--password", password)
	if !strings.Contains(out, release.Chart.Digest) {
		t.Errorf("Helm does not say that it installs %s:\n%s", release.Chart.Digest, out)
	}
	var controller appsv1.Deployment
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fairlead-controller"}, &controller); err != nil {
		t.Fatal(err)
	}
	pod := controller.Spec.Template
	if got, want := pod.Spec.Containers[0].Image, release.Image.Name+":0.1.0@"+release.Image.Digest; got != want {
		t.Errorf("the controller runs %s, want %s", got, want)
	}
	if pod.Spec.Containers[0].ImagePullPolicy != "IfNotPresent" || pod.Annotations["fairlead.io/image"] != "" {
		t.Errorf("nodes do not pull the image: %+v", pod)
	}
}

// followNotes does what the notes of a release tell people to do, with files that were
// downloaded, and returns what Helm says. Only krew is not here; cmd/release has a test of
// its manifest.
func followNotes(t *testing.T, kubeconfig, files string, helmFlags ...string) (installed string) {
	t.Helper()
	notes, err := os.ReadFile(filepath.Join(files, "NOTES.md"))
	if err != nil {
		t.Fatal(err)
	}
	kube, err := sandbox.KubeBinary(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	const from = "https://downloads.example/v0.1.0/"
	bin, applied := t.TempDir(), 0
	for _, b := range pages.Blocks("NOTES.md", notes) {
		for _, c := range b.Commands() {
			args := strings.Fields(strings.ReplaceAll(c.Text, from, files+"/"))
			switch {
			case args[0] == "helm":
				installed = helm(t, kubeconfig, append(args[1:], helmFlags...)...)
			case strings.HasPrefix(c.Text, "kubectl krew"):
			case args[0] == "kubectl":
				if args[1] == "create" { // without Helm, nobody has made these
					run(t, kube, "kubectl", "delete", "-f", args[3], "--ignore-not-found", "--kubeconfig", kubeconfig)
				}
				run(t, kube, append(args, "--kubeconfig", kubeconfig)...)
				applied++
			case args[0] == "curl":
				run(t, "bash", "-euo", "pipefail", "-c", strings.NewReplacer("curl -fsSL "+from, "cat "+files+"/", "/usr/local/bin", bin).Replace(c.Text))
			default:
				t.Errorf("the notes say %s", c.Text)
			}
		}
	}
	if applied < 7 {
		t.Errorf("the notes have %d manifests:\n%s", applied, notes)
	}
	if said := run(t, filepath.Join(bin, "kubectl-fairlead")); strings.TrimSpace(said) != "v0.1.0" {
		t.Errorf("the plugin of the archive says %q", said)
	}
	run(t, "bash", "-c", "cd "+files+" && sha256sum --check --quiet SHA256SUMS")
	return installed
}
