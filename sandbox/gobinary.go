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
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Binary is a static program of one of the Go modules beside the main one. It is
// built once and kept in the user's cache directory under a key made of its
// sources and the Go version; processes that ask for it at the same time build
// it once.
type Binary struct {
	Name    string // in the cache
	Module  string // directory of the module, in the root of the checkout
	Package string // "." or one that the module requires
	Title   string // what it is, for people
	Takes   string // how long the first build takes

	moduleFile  string // default: go.mod
	linkerFlags string // default: without debugging information
}

// unusedFor is how long a built binary is kept after its last use.
const unusedFor = 30 * 24 * time.Hour

// Path builds the binary, if it is not in the cache, and returns where it is.
// Progress is shown on the writer.
func (b Binary) Path(ctx context.Context, progress io.Writer) (string, error) {
	if b.moduleFile == "" {
		b.moduleFile = "go.mod"
	}
	if b.linkerFlags == "" {
		b.linkerFlags = "-s -w"
	}
	kube, err := kubeSource()
	if err != nil {
		return "", err
	}
	source := filepath.Join(filepath.Dir(kube), b.Module)
	key, err := b.key(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir := filepath.Join(cache, "fairlead")
	path := filepath.Join(dir, b.Name+"-"+key)
	if usable(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, b.Name+".lock"), func() {
		fmt.Fprintln(progress, "waiting for another process that builds", b.Title)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if usable(path) {
		return path, nil
	}
	if err := b.build(ctx, source, path, progress); err != nil {
		return "", err
	}
	return path, b.removeUnused(dir)
}

// usable reports whether the binary is there, and marks it as used.
func usable(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

func (b Binary) removeUnused(dir string) error {
	entries, err := filepath.Glob(filepath.Join(dir, b.Name+"-*"))
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

func (b Binary) key(source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	module := filepath.Join(source, b.moduleFile)
	files = append(files, module, strings.TrimSuffix(module, ".mod")+".sum")
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, b.linkerFlags)
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read source of %s: %w", b.Name, err)
		}
		fmt.Fprintf(h, "%s %x\n", filepath.Base(path), sha256.Sum256(content))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

func (b Binary) build(ctx context.Context, source, path string, progress io.Writer) error {
	unfinished := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(unfinished)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-modfile="+b.moduleFile, "-ldflags", b.linkerFlags, "-o", unfinished, b.Package)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build %s: %w", b.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", b.Name, err)
	}
	fmt.Fprintf(progress, "building %s from Go modules: once, %s\n", b.Title, b.Takes)
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
			fmt.Fprintf(progress, "building %s: %v, %d packages compiled\n", b.Title, time.Since(start).Round(time.Second), compiled.Load())
		case last := <-ended:
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("build %s: %w\n%s", b.Name, err, tailOf(last))
			}
			fmt.Fprintf(progress, "built %s in %v\n", b.Title, time.Since(start).Round(time.Second))
			return os.Rename(unfinished, path)
		}
	}
}
