package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// goFiles parses Go files with their comments.
func goFiles(paths ...string) ([]*ast.File, error) {
	var parsed []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	return parsed, nil
}

// flagsPage shows what "fairlead controller --help" and "fairlead agent --help"
// print.
func flagsPage(p *page) error {
	p.title("Flags", "cmd/fairlead", "Flags of the controller and the agent. The chart passes some of them. Use its values\n`controller.extraArgs` and `agent.extraArgs` to pass others.")
	for _, daemon := range []string{"controller", "agent"} {
		help, err := command("go", "run", "./cmd/fairlead", daemon, "--help")
		if err != nil {
			return err
		}
		p.heading("fairlead " + daemon)
		for line := range strings.Lines(string(help)) {
			p.printf("%s", strings.TrimRight("    "+line, " \n")+"\n")
		}
	}
	return nil
}

func annotationsPage(p *page) error {
	p.title("Annotations", "internal/compat/native/annotation.go and internal/compat/metallb/annotation.go", "Annotations that users set on a Service, and annotations that Fairlead writes. \"Impact\" is\nthe effect of changing the annotation on a Service that is already served.\n\n"+
		"MetalLB's annotations are read if the Service's class may use MetalLB's pools. They then apply to\npools in any configuration format. The old prefix `metallb.universe.tf/` works too; if both\nprefixes are present, the new one is used. A Service may use Fairlead's and MetalLB's annotations\ntogether. If they contradict each other, it is pending with reason `InvalidRequest`.\n\nFor kube-vip's annotations, see [kube-vip](kube-vip.md). For cloudscale.ch's annotations, see\n[cloudscale.ch](cloudscale.md), for CloudSigma's [CloudSigma](cloudsigma.md), and\nfor kube-dc's [kube-dc](kube-dc.md).")
	return constants(p, "internal/compat/native/annotation.go", "internal/compat/metallb/annotation.go")
}

// constants has one section for each documented constant of the files: its comment
// is prose, then lines "Type:", "Default:" and perhaps "Impact:". The first sentence
// about a group of them is a heading.
func constants(p *page, paths ...string) error {
	parsed, err := goFiles(paths...)
	if err != nil {
		return err
	}
	for _, f := range parsed {
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST || !exported(group) {
				continue
			}
			head, more, _ := strings.Cut(group.Doc.Text(), ".")
			p.heading(strings.Join(strings.Fields(head), " "))
			if more = strings.TrimSpace(more); more != "" {
				p.printf("%s\n\n", more)
			}
			for _, spec := range group.Specs {
				if err := constant(p, spec.(*ast.ValueSpec)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func constant(p *page, c *ast.ValueSpec) error {
	text, facts, found := strings.Cut(c.Doc.Text(), "\n\nType:")
	if !found {
		return fmt.Errorf("%s: its comment has no line \"Type:\"", c.Names[0])
	}
	name, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
	if err != nil {
		return err
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, c.Names[0].Name+" "), "is ")
	p.printf("### %s\n\n%s%s\n\n", name, strings.ToUpper(text[:1]), text[1:])
	for fact := range strings.Lines("Type:" + facts) {
		p.printf("- %s", fact)
	}
	p.printf("\n")
	return nil
}

// exported says whether the constants of a group are for others.
func exported(group *ast.GenDecl) bool {
	return group.Specs[0].(*ast.ValueSpec).Names[0].IsExported()
}

// structs returns the struct types of a file by name.
func structs(f *ast.File) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				found[spec.Name.Name] = s
			}
		}
		return true
	})
	return found
}

func configurationPage(p *page) error {
	p.title("Configuration file", "internal/config/config.go", "The file of the flag `--config`. The chart writes it from its values `clusterName`,\n`classes`, `cloudsigma` and `ovn`. All fields except `apiVersion` and `kind` are\noptional. Unknown fields are errors.\n\n"+
		"    apiVersion: fairlead.io/v1alpha1\n    kind: Configuration\n    clusterName: prod\n    classes:\n    - name: \"\"        # Services without spec.loadBalancerClass\n      backend: announce\n      pools: [native]\n    nodes:\n      cloud: none\n")
	parsed, err := goFiles("internal/config/config.go")
	if err != nil {
		return err
	}
	p.table("field", "meaning")
	return configFields(p, "", structs(parsed[0]), "Configuration")
}

func configFields(p *page, prefix string, types map[string]*ast.StructType, name string) error {
	for _, field := range types[name].Fields.List {
		if field.Tag == nil || field.Doc == nil {
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return fmt.Errorf("read the tag of %v: %w", field.Names, err)
		}
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		p.row("`"+prefix+key+"`", field.Doc.Text())
		below, suffix := field.Type, "."
		if list, ok := below.(*ast.ArrayType); ok {
			below, suffix = list.Elt, "[]."
		}
		if ident, ok := below.(*ast.Ident); ok && types[ident.Name] != nil {
			if err := configFields(p, prefix+key+suffix, types, ident.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
