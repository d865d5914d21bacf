package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	requiredKubernetes = regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v1\.((\d+)\.\d+)$`)
	requiredEtcd       = regexp.MustCompile(`(?m)go\.etcd\.io/etcd/server/v3 v(\S+)$`)
	replacedPart       = regexp.MustCompile(`(?m)=> (\S+) v0\.(\S+)$`)
)

// A module file of kube/ is one version of Kubernetes, all parts of which have it.
// Operators read which versions are tested, and no others.
func TestKubernetesVersions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "kube", "*.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var older, rows []string
	var newest string
	for _, path := range files {
		text := readText(t, path)
		kubernetes, etcd := requiredKubernetes.FindStringSubmatch(text), requiredEtcd.FindStringSubmatch(text)
		if kubernetes == nil || etcd == nil {
			t.Errorf("%s does not require k8s.io/kubernetes and etcd", path)
			continue
		}
		version, minor := kubernetes[1], kubernetes[2]
		for _, part := range replacedPart.FindAllStringSubmatch(text, -1) {
			if part[2] != version {
				t.Errorf("%s: %s is v0.%s, not v0.%s", path, part[1], part[2], version)
			}
		}
		rows = append(rows, "\n| 1."+version+" | "+etcd[1]+" | all | ")
		switch filepath.Base(path) {
		case "go.mod":
			newest = minor
		case "1." + minor + ".mod":
			older = append(older, minor)
		default:
			t.Errorf("%s has Kubernetes 1.%s", path, version)
		}
	}
	slices.Sort(older)
	guide := readText(t, filepath.Join(root, "docs/guides/install.md"))
	for _, row := range rows {
		if !strings.Contains(guide, row) {
			t.Errorf("the versions in docs/guides/install.md do not have the row %q", row)
		}
	}
	if got := strings.Count(guide, " | all | "); got != len(rows) {
		t.Errorf("docs/guides/install.md has %d tested versions, kube/ has %d", got, len(rows))
	}
	for page, want := range map[string]string{
		"README.md":                  "run on 1." + newest + ", those on an API server also on 1." + strings.Join(older, " and 1."),
		"docs/guides/install.md":     "Kubernetes 1." + strings.Join(older, ", 1.") + " and 1." + newest,
		"internal/snapshot/check.go": "oldestTested, newestTested = " + older[0] + ", " + newest,
	} {
		if !strings.Contains(readText(t, filepath.Join(root, page)), want) {
			t.Errorf("%s does not say %q: these are the versions in kube/", page, want)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
