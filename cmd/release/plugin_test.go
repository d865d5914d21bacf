package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.io/test/kit/tree"
)

// The manifest names an archive that exists, by its checksum, and the program in it
// runs.
func TestPlugin(t *testing.T) {
	out := t.TempDir()
	p := plugins{builder{tree.Path(), "v1.2.3"}, "https://example.invalid", time.Unix(0, 0), []string{runtime.GOOS + "/" + runtime.GOARCH}}
	var sbom []byte
	if err := p.write(t.Context(), out, "fairlead.yaml", func(platform, program string) (err error) {
		sbom, err = sbomOf(program, platform, version{1, 2, 3, 0}, p.at)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var m krewManifest
	if err := yaml.UnmarshalStrict(readFile(t, filepath.Join(out, "fairlead.yaml")), &m); err != nil {
		t.Fatal(err)
	}
	entry := m.Spec.Platforms[0]
	archive := readFile(t, filepath.Join(out, filepath.Base(entry.URI)))
	sum := sha256.Sum256(archive)
	if got := hex.EncodeToString(sum[:]); got != entry.SHA256 {
		t.Errorf("%s has the checksum %s, want %s", entry.URI, got, entry.SHA256)
	}
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(out, entry.Bin)
	var names []string
	for files := tar.NewReader(zip); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name)
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if f.FileInfo().Mode()&0o100 != 0 {
			if err := os.WriteFile(filepath.Join(out, f.Name), content, f.FileInfo().Mode()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.Join(names, " ") != entry.Bin+" kubectl_complete-fairlead LICENSE" {
		t.Errorf("%s has %v", entry.URI, names)
	}
	// As kubectl asks: with the arguments so far, and the programs in its PATH.
	ask := exec.CommandContext(t.Context(), filepath.Join(out, "kubectl_complete-fairlead"), "ip", "--")
	ask.Env = append(os.Environ(), "PATH="+out+":"+os.Getenv("PATH"))
	if got, err := ask.Output(); err != nil || !strings.Contains(string(got), "--by-namespace") || !strings.Contains(string(got), "\n:") {
		t.Errorf("%v: completed by\n%s", err, got)
	}
	if windows := completion("windows"); windows.name != "kubectl_complete-fairlead.cmd" {
		t.Errorf("for Windows there is %s", windows.name)
	}
	if !strings.Contains(m.Spec.Description, "check --on-nodes") {
		t.Errorf("the description does not say what writes: %s", m.Spec.Description)
	}
	if got, err := exec.Command(program, "--version").CombinedOutput(); err != nil || !strings.Contains(string(got), "v1.2.3") {
		t.Errorf("%v: %s", err, got)
	}
	listsModules(t, sbom)
}

// listsModules: the SBOM of the plugin has what SPDX demands, and each module once.
func listsModules(t *testing.T, sbom []byte) {
	t.Helper()
	var doc spdxDocument
	if err := json.Unmarshal(sbom, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || doc.SPDXID != "SPDXRef-DOCUMENT" || !strings.HasPrefix(doc.Namespace, "https://") || doc.CreationInfo.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("the document is %+v", doc)
	}
	ids, purls := map[string]bool{doc.SPDXID: true}, map[string]bool{}
	for _, p := range doc.Packages {
		if ids[p.SPDXID] || notInID.MatchString(p.SPDXID) || p.Version == "" || p.Download == "" {
			t.Errorf("the package %+v", p)
		}
		ids[p.SPDXID] = true
		purls[p.External[0].Locator] = true
	}
	for _, r := range doc.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v is about nothing", r)
		}
	}
	for _, want := range []string{"pkg:golang/fairlead.io@v1.2.3", "pkg:golang/github.com/spf13/cobra@v1.10.2", "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")} {
		if !purls[want] {
			t.Errorf("there is no %s", want)
		}
	}
	if len(doc.Packages) < 20 || len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("there are %d packages and %d relationships", len(doc.Packages), len(doc.Relationships))
	}
}
