package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// builder builds Go programs of a checkout for other systems. The result follows from the
// source and the version of Go: neither the directory nor the settings of the user count.
type builder struct {
	dir     string // the root of the checkout
	version string
}

// settings of Go that change what is built, as they are for a release.
var settings = []string{
	"CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -mod=readonly", "GOWORK=off", "GOTOOLCHAIN=local",
	"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
}

// build builds cmd/NAME into a file. Everybody may run it, whatever the umask.
func (b builder) build(ctx context.Context, name, system, arch, file string) error {
	c := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+b.version, "-o", file, "./cmd/"+name)
	c.Dir, c.Env = b.dir, append(append(os.Environ(), settings...), "GOOS="+system, "GOARCH="+arch)
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w\n%s", name, system, arch, err, output)
	}
	return os.Chmod(file, 0o755)
}

// goVersion is the version of Go that builds.
func (b builder) goVersion(ctx context.Context) (string, error) {
	c := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	c.Dir, c.Env = b.dir, append(os.Environ(), settings...)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("ask Go for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// helm runs Helm, as tools.mod has it.
func (b builder) helm(ctx context.Context) (func(args ...string) ([]byte, error), error) {
	c := exec.CommandContext(ctx, "go", "tool", "-n", "-modfile=tools.mod", "helm")
	c.Dir, c.Env = b.dir, append(append(os.Environ(), settings...), "GOFLAGS=-trimpath -buildvcs=false") // as make builds it
	path, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("build Helm: %w", err)
	}
	return func(args ...string) ([]byte, error) {
		var stderr bytes.Buffer
		c := exec.CommandContext(ctx, strings.TrimSpace(string(path)), args...)
		c.Dir, c.Stderr = b.dir, &stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
		}
		return out, nil
	}, nil
}

// archived is a file of an archive.
type archived struct {
	name    string
	mode    int64
	content []byte
}

// archive is a tar archive with files in the order given, all with the same time.
func archive(at time.Time, files ...archived) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// scratch makes a directory for what is built on the way.
func scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "fairlead-release-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // only its space is lost
}

func (b builder) path(elements ...string) string {
	return filepath.Join(append([]string{b.dir}, elements...)...)
}
