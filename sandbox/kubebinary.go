package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// kubeLinkerFlags give Kubernetes its version, as its own build does: without
// it kubelet and API server call themselves v0.0.0.
const kubeLinkerFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v1.37.0" +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitCommit=" +
	" -X k8s.io/client-go/pkg/version.gitVersion=v1.37.0" +
	" -X k8s.io/client-go/pkg/version.gitMajor=1" +
	" -X k8s.io/client-go/pkg/version.gitMinor=37"

// unusedFor is how long a built binary is kept after its last use.
const unusedFor = 30 * 24 * time.Hour

// KubeBinary returns the path of the multi-call binary of the kube module
// ("kube kube-apiserver …", "kube kubectl …"). It is built once, about ten
// minutes on two cores, and kept in the user's cache directory under a key
// made of its sources and the Go version; processes that ask for it at the
// same time build it once. Progress is shown on the writer.
func KubeBinary(ctx context.Context, progress io.Writer) (string, error) {
	source, err := kubeSource()
	if err != nil {
		return "", err
	}
	key, err := kubeKey(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir := filepath.Join(cache, "fairlead")
	path := filepath.Join(dir, "kube-"+key)
	if usable(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "kube.lock"), func() {
		fmt.Fprintln(progress, "waiting for another process that builds Kubernetes")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if usable(path) {
		return path, nil
	}
	if err := buildKube(ctx, source, path, progress); err != nil {
		return "", err
	}
	return path, removeUnused(dir)
}

// usable reports whether the binary is there, and marks it as used.
func usable(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

func removeUnused(dir string) error {
	entries, err := filepath.Glob(filepath.Join(dir, "kube-*"))
	if err != nil {
		return err
	}
	for _, path := range entries {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < unusedFor {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an unused binary: %w", err)
		}
	}
	return nil
}

// kubeSource finds the kube module: beside the go.mod of the directory we are
// in, as tests and "go run" are.
func kubeSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		kube := filepath.Join(dir, "kube")
		if _, err := os.Stat(filepath.Join(kube, "go.mod")); err == nil {
			return kube, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the kube module: neither %s nor a directory above it has kube/go.mod; run this inside a checkout", start)
		}
	}
}

func kubeKey(source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	files = append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, kubeLinkerFlags)
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read source of kube: %w", err)
		}
		fmt.Fprintf(h, "%s %x\n", filepath.Base(path), sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

func buildKube(ctx context.Context, source, path string, progress io.Writer) error {
	unfinished := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(unfinished)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", kubeLinkerFlags, "-o", unfinished, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build kube: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build kube: %w", err)
	}
	fmt.Fprintln(progress, "building Kubernetes 1.37 and etcd from their Go modules: once, about ten minutes on two cores")
	start := time.Now()
	var compiled atomic.Int64 // one line per package that was not in the build cache
	ended := make(chan []string)
	go func() {
		var last []string
		for lines := bufio.NewScanner(output); lines.Scan(); compiled.Add(1) {
			last = append(last[max(0, len(last)-20):], lines.Text())
		}
		ended <- last
	}()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(progress, "building Kubernetes: %v, %d packages compiled\n", time.Since(start).Round(time.Second), compiled.Load())
		case last := <-ended:
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("build kube: %w\n%s", err, tailOf(last))
			}
			fmt.Fprintf(progress, "built Kubernetes in %v\n", time.Since(start).Round(time.Second))
			return os.Rename(unfinished, path)
		}
	}
}
