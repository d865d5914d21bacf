package reasons

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.io/internal/lb"
)

// declaredCodes returns the constants of type lb.Code in the source of the product,
// by value.
func declaredCodes(t *testing.T) map[lb.Code]string {
	t.Helper()
	codes := map[lb.Code]string{}
	look := func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		switch typ := spec.Type.(type) {
		case *ast.Ident:
			ok = typ.Name == "Code"
		case *ast.SelectorExpr:
			ok = typ.Sel.Name == "Code"
		default:
			ok = false
		}
		for i, name := range spec.Names {
			if !ok || i >= len(spec.Values) {
				continue
			}
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is not written as a literal", name.Name)
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes[lb.Code(value)] = name.Name
		}
		return true
	}
	sources(t, "..", func(file *ast.File) { ast.Inspect(file, look) })
	return codes
}

// sources calls f with each file of the product below root.
func sources(t *testing.T, root string, f func(*ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			f(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The list is closed: every constant is in it, under its own name, and nothing else
// is.
func TestReasonsAreComplete(t *testing.T) {
	codes := declaredCodes(t)
	if len(codes) < 20 {
		t.Fatalf("only %d codes found", len(codes))
	}
	for code, name := range codes {
		if string(code) != name {
			t.Errorf("%s is spelled %q", name, code)
		}
		if _, ok := All[code]; !ok {
			t.Errorf("%s is in no table", code)
		}
	}
	for code := range All {
		if _, ok := codes[code]; !ok {
			t.Errorf("%s is not a constant", code)
		}
	}
}

// A reason that nobody gives is a promise that nobody keeps: each constant is used somewhere
// beside its declaration and its entry in a table.
func TestReasonsAreGiven(t *testing.T) {
	used := map[string]bool{}
	var declaration func(n ast.Node) bool
	declaration = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for _, value := range n.Values {
				ast.Inspect(value, declaration)
			}
			return false
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, declaration)
			return false
		case *ast.Ident:
			used[n.Name] = true
		}
		return true
	}
	for _, root := range []string{"..", "../../cmd"} {
		sources(t, root, func(file *ast.File) { ast.Inspect(file, declaration) })
	}
	for code, name := range declaredCodes(t) {
		if !used[name] {
			t.Errorf("nobody gives %s", code)
		}
	}
}

// No two parts mean different things by one code. (Merge would say so, but All
// could not be made.)
func TestReasonsAreUnique(t *testing.T) {
	if _, err := lb.Merge(tables...); err != nil {
		t.Error(err)
	}
}

func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	for code, about := range All {
		if !strings.Contains(string(page), "\n### "+string(code)+"\n\n"+about.Means+"\n") {
			t.Errorf("%s is not in docs/reference/reasons.md; go run ./cmd/generate", code)
		}
	}
}

func TestReasonsAreSentences(t *testing.T) {
	camelCase := regexp.MustCompile(`^([A-Z]+[a-z0-9]+)+$`) // VIPConflict, too
	for code, about := range All {
		if !camelCase.MatchString(string(code)) {
			t.Errorf("%s is not CamelCase", code)
		}
		for what, s := range map[string]string{"example": about.Example(), "means": about.Means, "do": about.Do} {
			switch {
			case strings.Contains(s, "%!"):
				t.Errorf("%s: %s has a blank that is not filled: %s", code, what, s)
			case s == "" || !strings.HasSuffix(s, ".") || strings.Contains(s, "  "):
				t.Errorf("%s: %s is no sentence: %q", code, what, s)
			}
		}
		if !slices.Contains([]string{"Service", "Pool", "Agent", "Node", "L2Advertisement", "MetalLB's kinds", "MetalLB's BGP kinds", "BGPPeer", "BGPAdvertisement", "BFDProfile", "Community", "ConfigMap", "EIp"}, about.On) {
			t.Errorf("%s is on %q", code, about.On)
		}
		if about.On == "Pool" && !about.Ready && !about.Warning && code != lb.PoolDisabled {
			t.Errorf("%s is neither fine nor a warning", code)
		}
	}
}

// The core's sentences are read by users of every backend and format.
func TestCommonNamesNobody(t *testing.T) {
	names := regexp.MustCompile(`(?i)metallb|kube-?vip|cloudscale|L2Advertisement|IPAddressPool|ConfigMap`)
	for code, about := range lb.Common {
		for _, s := range []string{about.Text, about.Example(), about.Means, about.Do, about.On} {
			if found := names.FindString(s); found != "" {
				t.Errorf("%s names %s: %s", code, found, s)
			}
		}
	}
}
