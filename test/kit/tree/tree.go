// Package tree finds what is in the source tree and builds its commands, for tests
// and from wherever they are.
package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the directory with go.mod. A test's working directory is below it.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the root of the tree: no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
})

// Path returns the path of something in the tree, or of its root.
func Path(elements ...string) string {
	dir, err := root()
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{dir}, elements...)...)
}

// Build builds cmd/NAME into dir and returns the binary's path.
func Build(ctx context.Context, name, dir string) (string, error) {
	binary := filepath.Join(dir, name)
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/"+name)
	build.Dir, build.Env = Path(), append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return binary, nil
}

// tools are those of tools.mod, by name.
var tools sync.Map

// Tool is the path of one of the tools of tools.mod. To run it is much faster than what
// finds it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	find, _ := tools.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		run := func(args ...string) (string, error) {
			cmd := exec.Command("go", append([]string{"tool", "-modfile=tools.mod"}, args...)...)
			cmd.Dir, cmd.Env = Path(), append(os.Environ(), "CGO_ENABLED=0")
			out, err := cmd.Output()
			return strings.TrimSpace(string(out)), err
		}
		if _, err := run(name, "version"); err != nil { // that builds it, what asks for the path does not
			return "", err
		}
		return run("-n", name)
	}))
	path, err := find.(func() (string, error))()
	if err != nil {
		t.Fatalf("find %s: %v", name, err)
	}
	return path
}

// shared is what tests of one process have in common.
var shared struct {
	sync.Mutex
	dir   string
	built map[string]string // paths by name
}

// Share runs tests that have the binaries of commands in common: each is built once. It
// returns what run returns.
func Share(run func() int) int {
	dir, err := os.MkdirTemp("", "fairlead-binaries-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make directory for binaries:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir, shared.built = dir, map[string]string{}
	return run()
}

// Binary builds cmd/NAME, for one test or for all that Share runs.
func Binary(t testing.TB, name string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if binary, built := shared.built[name]; built {
		return binary
	}
	dir := shared.dir
	if dir == "" {
		dir = t.TempDir()
	}
	binary, err := Build(t.Context(), name, dir)
	if err != nil {
		t.Fatal(err)
	}
	if shared.dir != "" {
		shared.built[name] = binary
	}
	return binary
}
