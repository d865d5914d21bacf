package main

import (
	"go/ast"
	"maps"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	commands "fairlead.io/internal/tool"
)

// answers are the types that commands print with -o json and -o yaml.
var answers = []struct{ command, name string }{
	{"status", "Status"}, {"why", "Why"}, {"ip", "Addresses"}, {"plan", "Plan"}, {"check", "Checks"}, {"migrate", "Migration"},
}

func toolPage(p *page) error {
	p.title("kubectl fairlead", "internal/tool and internal/snapshot", `The plugin `+"`kubectl fairlead`"+` reads the cluster once, and decides by the code of the controller and the
agents. It writes nothing, except for `+"`check --on-nodes`"+`. `+"`fairlead`"+` has the same commands.

All commands exit with 0 if all is well, 1 if there are problems, and 2 if not everything is known: a
permission is missing, or the cluster does not answer. With `+"`-o json`"+` and `+"`-o yaml`"+` they print an object
with `+"`apiVersion: fairlead.io/v1alpha1`"+` and the kind of the tables below. The
[JSON schema](kubectl-fairlead.schema.json) has all of them; "migrate --verify" prints the kind `+"`Verification`"+`.`)
	for _, c := range commands.Commands("") {
		p.heading("kubectl fairlead " + c.Name())
		p.printf("%s\n\n", indented(c.Long))
		root := &cobra.Command{Use: "kubectl fairlead"}
		root.AddCommand(c)
		c.InitDefaultHelpFlag()
		p.printf("%s\n", indented(strings.TrimSpace(c.UsageString())))
		if err := answerFields(p, c.Name()); err != nil {
			return err
		}
	}
	p.heading("What \"why\" says for each reason")
	p.printf("[A page of its own](why.md) has the step that names each reason, and what the command proposes.\n")
	return nil
}

// indented is text as a block of code.
func indented(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, strings.TrimRight("    "+line, " "))
	}
	return strings.Join(out, "\n")
}

// answerFields describes the fields of a command's answer.
func answerFields(p *page, command string) error {
	var paths []string
	for _, pattern := range []string{"internal/snapshot/*.go", "internal/migrate/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	parsed, err := goFiles(paths...)
	if err != nil {
		return err
	}
	all := map[string]*ast.StructType{}
	for _, f := range parsed {
		maps.Copy(all, structs(f))
	}
	for _, a := range answers {
		if a.command != command {
			continue
		}
		prefix := ""
		if command == "why" {
			prefix = "items[]." // an address may have several Services
		}
		p.printf("\nThe kind is `%s`.\n\n", a.name)
		p.table("field", "meaning")
		return configFields(p, prefix, all, a.name)
	}
	return nil // it prints no object
}
