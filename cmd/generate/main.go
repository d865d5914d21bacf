// Command generate writes every file of this tree that is made from something
// else: deep copies and CRDs from the Go types, deploy/ and the chart's
// snapshots from the chart, docs/reference/ from the constants that the code
// uses, pictures in docs/images from docs/pictures. With -check it writes nothing
// and fails if a file is not up to date.
//
// It runs in the root of the tree.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// files has the contents of generated files by their paths in the tree.
type files map[string][]byte

// parts make all files. The chart's snapshots are rendered from the CRDs as
// they are in the tree, so these come first.
var parts = []func() (files, error){kinds, opaqueKinds, manifests, reference, answerSchema, pictures}

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a file is not up to date")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	if _, err := os.Stat("tools.mod"); err != nil {
		return fmt.Errorf("find the root of the tree: %w", err)
	}
	each := write
	if check {
		each = compare
	}
	var stale []error
	for _, part := range parts {
		made, err := part()
		if err != nil {
			return err
		}
		for _, path := range slices.Sorted(maps.Keys(made)) {
			stale = append(stale, each(path, made[path]))
		}
	}
	return errors.Join(stale...)
}

func write(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Println("write", path)
	return os.WriteFile(path, content, 0o644)
}

func compare(path string, content []byte) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; run \"make generate\"", err)
	}
	if diff := cmp.Diff(strings.Split(string(old), "\n"), strings.Split(string(content), "\n")); diff != "" {
		return fmt.Errorf("%s is not up to date; run \"make generate\" (- is, + should be):\n%s", path, diff)
	}
	return nil
}

// binaries are where Go keeps the tools of tools.mod, by name. To ask Go each time takes
// longer than to run one.
var binaries = map[string]string{}

// tool runs a tool of tools.mod and returns what it prints.
func tool(args ...string) ([]byte, error) {
	name := args[0]
	if binaries[name] == "" {
		out, err := command("go", "tool", "-n", "-modfile=tools.mod", name)
		if err != nil {
			return nil, err
		}
		binaries[name] = strings.TrimSpace(string(out))
	}
	return command(binaries[name], args[1:]...)
}

func command(name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
