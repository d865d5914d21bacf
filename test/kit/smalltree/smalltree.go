// Package smalltree makes a Git repository like this one, but small: the chart is ours,
// the programs only print their version. A release of it is built in seconds. It is for
// tests of releases.
package smalltree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

// program is what the small tree has as fairlead and kubectl-fairlead.
const program = `// Command prints its version.
package main

var version = "dev"

func main() { println(version) }
`

var files = map[string]string{
	"go.mod":                       "module fairlead.io\n\ngo 1.26.0\n",
	"cmd/fairlead/main.go":         program,
	"cmd/kubectl-fairlead/main.go": program,
	"LICENSE":                      "a licence\n",
	"CHANGELOG.md":                 "# Changelog\n\n## 0.1.0 (2026-01-31)\n\n- The first version.\n",
	".gitignore":                   "/dist/\n/.release-*/\n/tested\n",
	// The tests leave a mark, and fail where somebody says so.
	"Makefile": "test:\n\t@test ! -e fails\n\t@echo tested >tested\n",
	// The program under test stands for that of the tree.
	"helpers/release": "#!/usr/bin/env bash\nexec \"$RELEASE_PROGRAM\" \"$@\"\n",
}

// New makes the repository, with one commit on the branch main.
func New(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.CopyFS(filepath.Join(dir, "charts", "fairlead"), os.DirFS(tree.Path("charts", "fairlead"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tools.mod", "tools.sum"} { // they name Helm
		content, err := os.ReadFile(tree.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		Write(t, dir, name, string(content))
	}
	for name, content := range files {
		Write(t, dir, name, content)
	}
	if err := os.Chmod(filepath.Join(dir, "helpers", "release"), 0o755); err != nil {
		t.Fatal(err)
	}
	Git(t, dir, "init", "--quiet", "--initial-branch", "main")
	Commit(t, dir)
	return dir
}

// Write writes a file of the tree.
func Write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Commit commits all changes.
func Commit(t testing.TB, dir string) {
	t.Helper()
	Git(t, dir, "add", "--all")
	Git(t, dir, "commit", "--quiet", "--message", "change")
}

// Identity is what Git needs to know of a person.
var Identity = []string{
	"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.invalid", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.invalid",
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
}

// Git runs Git in a directory and returns what it prints.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir, c.Env = dir, append(os.Environ(), Identity...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Run runs the program under test as helpers/release of the tree, and returns what it
// prints. Variables of the environment come before the arguments, as in a shell.
func Run(t testing.TB, program, dir string, args ...string) (string, error) {
	t.Helper()
	env := append(append(os.Environ(), Identity...), "RELEASE_PROGRAM="+program)
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "helpers", "release"), args...)
	c.Dir, c.Env = dir, env
	out, err := c.CombinedOutput()
	return string(out), err
}
