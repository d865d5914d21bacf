package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// core are the packages that must know no dialect and no backend by name. Packages
// below them may.
var core = []string{"internal/lb", "internal/ipam", "internal/elect", "internal/controller", "internal/agent"}

// systems are the names of dialects and backends.
var systems = regexp.MustCompile(`(?i)metallb|kube-?vip|cloudscale|cloudsigma|kubedc|ovn`)

// A core file names a system if an identifier, a string, an import or the name of the
// file itself contains its name. Comments may explain what others do.
func TestCoreNamesNoDialectOrBackend(t *testing.T) {
	for _, src := range goSources(t) {
		if strings.HasSuffix(src.path, "_test.go") || !slices.Contains(core, path.Dir(src.path)) {
			continue
		}
		if found := systemsIn(src); len(found) > 0 {
			t.Errorf("%s names %s: what is about one dialect or backend belongs into its package", src.path, strings.Join(found, ", "))
		}
	}
}

// systemsIn returns where a file names systems, each place once.
func systemsIn(src goSource) []string {
	found := map[string]bool{}
	if systems.MatchString(path.Base(src.path)) {
		found["one in its own name"] = true
	}
	ast.Inspect(src.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			imported := strings.Trim(n.Path.Value, `"`)
			if systems.MatchString(imported) || strings.HasPrefix(imported, module+"/internal/compat/") || strings.HasPrefix(imported, module+"/internal/backend/") {
				found["the package "+imported] = true
			}
			return false
		case *ast.Ident:
			if systems.MatchString(n.Name) {
				found[n.Name] = true
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && systems.MatchString(n.Value) {
				found[fmt.Sprintf("%.40s", n.Value)] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(found))
}
