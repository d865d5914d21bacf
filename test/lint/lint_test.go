// Package lint has the rules of the tree: tests about the tree itself, not
// about what the code does. A rule that is not tested here is only a habit.
package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "fairlead.io"
)

// file is one file of the tree.
type file struct {
	path string // from the root
	text string
}

// tree returns all text files of the tree whose names end in one of suffixes,
// or all without any; never what is built, nor what Git keeps for itself.
func tree(t *testing.T, suffixes ...string) []file {
	t.Helper()
	var found []file
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".git" && !d.IsDir(): // of a worktree
			return nil
		case path == ".git" || path == "bin" || path == "dist":
			return fs.SkipDir
		case !d.Type().IsRegular() || !hasSuffix(path, suffixes):
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // somebody's temporary file
		}
		if err == nil && !bytes.ContainsRune(raw, 0) {
			found = append(found, file{path, string(raw)})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func hasSuffix(path string, suffixes []string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(path, s) {
			return true
		}
	}
	return len(suffixes) == 0
}

// goSource is one parsed Go file.
type goSource struct {
	file
	*ast.File
	generated bool
}

func goSources(t *testing.T) []goSource {
	t.Helper()
	var parsed []goSource
	for _, f := range tree(t, ".go") {
		src, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, goSource{f, src, ast.IsGenerated(src)})
	}
	return parsed
}

// listed is what "go list -json" says about a package.
type listed struct {
	ImportPath string
	Imports    []string
}

// packages lists packages of the module by "go list".
func packages(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
