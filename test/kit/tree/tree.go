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

// Binary builds cmd/NAME for one test.
func Binary(t testing.TB, name string) string {
	t.Helper()
	binary, err := Build(t.Context(), name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
