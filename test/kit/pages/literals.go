package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

// Oneline is a command without the spaces that do not matter.
func Oneline(command string) string { return strings.Join(strings.Fields(command), " ") }

// InTests returns what tests of the tree have as text, each without the spaces that do not
// matter: strings of Go, with those that "+" joins, and the commands of stories.
func InTests(t testing.TB) (found []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(tree.Path()), "test", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), tree.Path(path), nil, 0)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"fairlead.io/test/kit/pages"` }) {
				return nil // it would prove itself
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, is := literal(n); is && len(text) > 8 {
					found = append(found, Oneline(text))
					return false
				}
				return true
			})
		case filepath.Ext(path) == ".txtar":
			raw, err := os.ReadFile(tree.Path(path))
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(raw)) {
				if strings.HasPrefix(line, "kubectl ") {
					found = append(found, Oneline(line))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// literal is the text of a string, or of several that "+" joins; what is not known before the
// test runs is a gap.
func literal(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, err == nil && n.Kind == token.STRING
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return "", false
		}
		left, a := literal(n.X)
		right, b := literal(n.Y)
		switch {
		case a && b:
			return left + right, true
		case a:
			return left + "\x00", true
		case b:
			return "\x00" + right, true
		}
	}
	return "", false
}
