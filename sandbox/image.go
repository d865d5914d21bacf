package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Image is a container image made from files alone: a static binary needs no
// distribution around it.
type Image struct {
	// Ref is its name and tag, "fairlead/web:dev". Without a registry it is
	// filed under docker.io, where the kubelet looks for such names.
	Ref        string
	Entrypoint []string
	User       string // UID or UID:GID; default root
	Files      []ImageFile
}

// ImageFile is a file of an [Image].
type ImageFile struct {
	Path   string // in the image
	Source string // on this machine; its permissions are kept
}

// AddProgram adds a program of this machine under another path, with the libraries that it needs.
func (i *Image) AddProgram(ctx context.Context, path, name string) error {
	program, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", i.Ref, err)
	}
	i.Files = append(i.Files, ImageFile{Path: path, Source: program})
	out, err := exec.CommandContext(ctx, "ldd", program).Output()
	if err != nil {
		return fmt.Errorf("find the libraries of %s: %w", program, err)
	}
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		if file := (ImageFile{Path: match[1], Source: match[1]}); !slices.Contains(i.Files, file) {
			i.Files = append(i.Files, file)
		}
	}
	return nil
}

// library is a line of ldd's.
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// Write writes the image as a docker-archive, which "sandbox load" and
// "ctr images import" read. The same files give the same bytes.
func (i Image) Write(w io.Writer) error {
	layer, err := i.Layer()
	if err != nil {
		return err
	}
	type rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	type runConfig struct {
		Entrypoint []string `json:",omitempty"`
		User       string   `json:",omitempty"`
		WorkingDir string
	}
	config, err := json.Marshal(struct {
		Architecture string    `json:"architecture"`
		OS           string    `json:"os"`
		Config       runConfig `json:"config"`
		RootFS       rootfs    `json:"rootfs"`
	}{runtime.GOARCH, "linux", runConfig{i.Entrypoint, i.User, "/"}, rootfs{"layers", []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}}})
	if err != nil {
		return fmt.Errorf("encode image config: %w", err)
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{{configName, []string{fullRef(i.Ref)}, []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encode image manifest: %w", err)
	}
	archive := tar.NewWriter(w)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"layer.tar", layer}, {configName, config}, {"manifest.json", manifest}} {
		if err := writeTarFile(archive, f.name, 0o644, f.content); err != nil {
			return fmt.Errorf("write image %s: %w", i.Ref, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write image %s: %w", i.Ref, err)
	}
	return nil
}

// WriteFile writes the image to a file.
func (i Image) WriteFile(name string) error {
	var b bytes.Buffer
	if err := i.Write(&b); err != nil {
		return err
	}
	if err := replaceFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image %s: %w", i.Ref, err)
	}
	return nil
}

// Layer is the tar archive with the files, and with directories that runtimes
// mount something on.
func (i Image) Layer() ([]byte, error) {
	var b bytes.Buffer
	layer := tar.NewWriter(&b)
	modes := map[string]int64{"dev": 0o755, "etc": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777}
	for _, f := range i.Files {
		for dir := path.Dir(strings.TrimPrefix(f.Path, "/")); dir != "."; dir = path.Dir(dir) {
			if _, ok := modes[dir]; !ok {
				modes[dir] = 0o755
			}
		}
	}
	dirs := make([]string, 0, len(modes))
	for dir := range modes {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs) // parents first
	for _, dir := range dirs {
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: modes[dir]}); err != nil {
			return nil, fmt.Errorf("write layer of %s: %w", i.Ref, err)
		}
	}
	for _, f := range i.Files {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, fmt.Errorf("read file of image %s: %w", i.Ref, err)
		}
		info, err := os.Stat(f.Source)
		if err != nil {
			return nil, fmt.Errorf("read file of image %s: %w", i.Ref, err)
		}
		if err := writeTarFile(layer, strings.TrimPrefix(f.Path, "/"), int64(info.Mode().Perm()), content); err != nil {
			return nil, fmt.Errorf("write layer of %s: %w", i.Ref, err)
		}
	}
	if err := layer.Close(); err != nil {
		return nil, fmt.Errorf("write layer of %s: %w", i.Ref, err)
	}
	return b.Bytes(), nil
}

func writeTarFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// fullRef spells out a reference as container runtimes do.
func fullRef(ref string) string {
	first, _, slash := strings.Cut(ref, "/")
	switch {
	case !slash:
		return "docker.io/library/" + ref
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return ref
	default:
		return "docker.io/" + ref
	}
}
