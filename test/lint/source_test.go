package lint

import (
	"go/ast"
	"go/format"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	comments := map[string][]string{} // package → files with its comment
	for _, src := range goSources(t) {
		key := filepath.Dir(src.path) + " " + strings.TrimSuffix(src.Name.Name, "_test")
		if src.Doc != nil {
			comments[key] = append(comments[key], src.path)
		} else if comments[key] == nil {
			comments[key] = []string{}
		}
	}
	for key, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s must have one comment, has %d: %v", key, len(files), files)
		}
	}
}

func TestNoPackageIsADrawer(t *testing.T) {
	for _, src := range goSources(t) {
		switch strings.TrimSuffix(src.Name.Name, "_test") {
		case "util", "utils", "common", "helper", "helpers", "misc", "manager", "types":
			t.Errorf("%s: name the package %s after the thing it is about", src.path, src.Name.Name)
		}
	}
}

func TestSourceIsFormatted(t *testing.T) {
	for _, src := range goSources(t) {
		if formatted, err := format.Source([]byte(src.text)); err != nil || string(formatted) != src.text {
			t.Errorf("%s: run gofmt -w on it (%v)", src.path, err)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most = 600
	for _, src := range goSources(t) {
		if n := strings.Count(src.text, "\n"); n > most && !src.generated {
			t.Errorf("%s has %d lines; the most is %d, 60 to 300 is good", src.path, n, most)
		}
	}
}

// A test that is skipped tests nothing, and one that sleeps hopes.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	for _, src := range goSources(t) {
		if !strings.HasSuffix(src.path, "_test.go") && !strings.HasPrefix(src.path, "test/") {
			continue
		}
		ast.Inspect(src.File, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			switch {
			case !ok:
			case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && slices.Contains([]string{"t", "b", "tb", "f"}, x.Name):
				t.Errorf("%s skips; make it run everywhere instead", src.path)
			case x.Name == "time" && sel.Sel.Name == "Sleep":
				t.Errorf("%s sleeps; wait for what it needs instead", src.path)
			}
			return true
		})
	}
}

// Nothing in the tree may know the machine it was written on.
func TestNoMachinePaths(t *testing.T) {
	private := []string{"/wo" + "rk/", "../sha" + "red", "/ro" + "ot/"}
	for _, f := range tree(t) {
		for _, p := range private {
			if strings.Contains(f.text, p) {
				t.Errorf("%s contains %q", f.path, p)
			}
		}
	}
}
