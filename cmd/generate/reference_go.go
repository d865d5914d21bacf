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
	p.title("Flags", "cmd/fairlead", "What the two daemons take. The chart passes some of them; its values\n`controller.extraArgs` and `agent.extraArgs` pass any other.")
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
	p.title("Annotations", "internal/compat/native/annotation.go and internal/compat/metallb/annotation.go", "What a Service may ask for, and what is written on it. \"Impact\" says what happens to a\nService that is already served when the annotation is changed.\n\n"+
		"MetalLB's annotations count where the Service's class may use MetalLB's pools, and for pools\nof any kind. They are also read with the prefix of old, `metallb.universe.tf/`; where both are\nthere, the new one counts. One thing may be asked for in both dialects; a Service that asks for\ntwo different ones waits with reason `InvalidRequest`.\n\nThe annotations of kube-vip are in [the reference of kube-vip](kube-vip.md), those of cloudscale.ch in\n[the reference of cloudscale.ch](cloudscale.md).")
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
	text = strings.TrimPrefix(text, c.Names[0].Name+" ")
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
	p.title("Configuration file", "internal/config/config.go", "The file that `--config` names; the chart writes it from its values `clusterName` and\n`classes`. Everything but `apiVersion` and `kind` is optional. A field that is not\nlisted here is an error.\n\n"+
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
