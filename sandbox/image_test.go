package sandbox

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFullRef(t *testing.T) {
	for ref, want := range map[string]string{
		"web:dev":              "docker.io/library/web:dev",
		"fairlead/web:dev":     "docker.io/fairlead/web:dev",
		"localhost/web:dev":    "localhost/web:dev",
		"registry.test/web:1":  "registry.test/web:1",
		"registry:5000/a/b:1":  "registry:5000/a/b:1",
		"docker.io/fair/web:1": "docker.io/fair/web:1",
	} {
		if got := fullRef(ref); got != want {
			t.Errorf("fullRef(%q) = %q, want %q", ref, got, want)
		}
	}
}

func TestImageArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	image := Image{
		Ref:        "fairlead/test:1",
		Entrypoint: []string{"/usr/bin/program", "serve"},
		User:       "65532",
		Files:      []ImageFile{{Path: "/usr/bin/program", Source: program}},
	}
	var first, second bytes.Buffer
	if err := image.Write(&first); err != nil {
		t.Fatal(err)
	}
	if err := image.Write(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same image is written in two ways")
	}
	files := untar(t, &first)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"docker.io/fairlead/test:1"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		} `json:"config"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532" || len(config.Config.Entrypoint) != 2 {
		t.Errorf("got configuration %+v", config)
	}
	var listing []string
	for r := tar.NewReader(bytes.NewReader(files[manifest[0].Layers[0]])); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		listing = append(listing, fmt.Sprintf("%o %s", header.Mode, header.Name))
	}
	want := []string{"755 dev/", "755 etc/", "555 proc/", "755 run/", "555 sys/", "1777 tmp/", "755 usr/", "755 usr/bin/", "755 usr/bin/program"}
	if diff := cmp.Diff(want, listing); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func untar(t *testing.T, archive io.Reader) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProgramsComeWithTheirLibraries(t *testing.T) {
	var image Image
	for _, path := range []string{"/bin/sh", "/usr/bin/again"} {
		if err := image.AddProgram(t.Context(), path, "sh"); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for _, f := range image.Files {
		seen[f.Path]++
	}
	if seen["/bin/sh"] != 1 || seen["/usr/bin/again"] != 1 {
		t.Errorf("the image has %v, want both programs", seen)
	}
	libraries := len(seen) - 2
	if libraries == 0 || len(image.Files) != len(seen) {
		t.Errorf("the image has %v, want each library once", seen)
	}
	if err := image.AddProgram(t.Context(), "/bin/none", "no-such-program"); err == nil {
		t.Error("no error for a program that does not exist")
	}
}
