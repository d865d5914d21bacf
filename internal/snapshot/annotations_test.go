package snapshot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

// Every annotation that a format defines is known, so none is called unknown.
func TestEveryAnnotationIsKnown(t *testing.T) {
	files, err := filepath.Glob(tree.Path("internal", "compat", "*", "annotation.go"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %v", files, err)
	}
	found := 0
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		prefix := ""
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, value := spec.Names[0].Name, spec.Values[0]
			if sum, ok := value.(*ast.BinaryExpr); ok {
				value = sum.Y
			} else if name != "prefix" {
				prefix = strings.TrimSuffix(prefix, "\x00")
			}
			text, ok := value.(*ast.BasicLit)
			if !ok {
				return true
			}
			key, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name == "prefix" {
				prefix = key
			}
			if _, ok := spec.Values[0].(*ast.BinaryExpr); ok {
				key = prefix + key
			}
			if !strings.HasPrefix(name, "Annotation") {
				return true
			}
			if found++; !slices.Contains(annotations, key) {
				t.Errorf("%s: %s is not known", path, key)
			}
			return true
		})
	}
	if found != len(annotations) {
		t.Errorf("%d are known, %d are defined", len(annotations), found)
	}
}

func TestUnknownAnnotations(t *testing.T) {
	got := unknownAnnotations(map[string]string{
		"fairlead.io/pool": "", "fairlead.io/pools": "", "metallb.universe.tf/address-pool": "", "metallb.universe.tf/pool": "",
		"metallb.io/loadBalancerIP": "", "k8s.cloudscale.ch/loadbalancer-flavour": "", "example.com/whatever": "", "plain": "",
	})
	want := []string{"fairlead.io/pools", "k8s.cloudscale.ch/loadbalancer-flavour", "metallb.io/loadBalancerIP", "metallb.universe.tf/pool"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
