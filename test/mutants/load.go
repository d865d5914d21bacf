package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is a package with all its mutants.
type pkg struct {
	dir     string // below the module's root
	name    string
	files   map[string][]byte // with all mutants in them, by path
	mutants []mutant
	// flags of its tests.
	flags []string
}

// load reads the package in dir, and makes its mutants.
func load(ctx context.Context, dir string) (*pkg, error) {
	// The importer reads what the compiler has written about imported packages.
	out, err := output(exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,GoFiles,DepOnly", "./"+dir))
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	p := &pkg{dir: dir, files: map[string][]byte{}}
	var names []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath, Name, Export string
			GoFiles                  []string
			DepOnly                  bool
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if exports[l.ImportPath] = l.Export; !l.DepOnly {
			p.name, names = l.Name, l.GoFiles
		}
	}
	if p.flags, err = flags(ctx, dir); err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if sources[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return p, p.mutate(sources, func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// flags keep property tests from looking for the shortest failure, which takes half a minute, and
// from writing it beside the tests.
func flags(ctx context.Context, dir string) ([]string, error) {
	out, err := output(exec.CommandContext(ctx, "go", "list", "-test", "-deps", "./"+dir))
	if err != nil || !slices.Contains(strings.Fields(string(out)), "pgregory.net/rapid") {
		return nil, err
	}
	return []string{"-rapid.nofailfile", "-rapid.shrinktime=0s"}, nil
}

// mutate makes the mutants of sources, which are files by path. Lookup opens the export
// data of an imported package.
func (p *pkg) mutate(sources map[string][]byte, lookup importer.Lookup) error {
	fset := token.NewFileSet()
	var files []*ast.File
	for path, source := range sources {
		f, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	sortFiles(fset, files)
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	if _, err := conf.Check(p.dir, fset, files, info); err != nil {
		return err
	}
	for _, f := range files {
		path := fset.File(f.Pos()).Name()
		if ast.IsGenerated(f) {
			continue
		}
		m := &mutator{path: path, source: sources[path], fset: fset, info: info, next: len(p.mutants) + 1}
		if text := m.file(f); len(m.mutants) > 0 {
			p.files[path] = []byte(text)
			p.mutants = append(p.mutants, m.mutants...)
		}
	}
	return nil
}

// output of a command of Go, which builds without C, as make does: the packages of the tree are
// in its cache then.
func output(c *exec.Cmd) ([]byte, error) {
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", c, err, errs.Bytes())
	}
	return out, nil
}
