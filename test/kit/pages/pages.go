// Package pages finds the commands that people copy from the documentation.
package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"fairlead.io/test/kit/tree"
)

// Block is a block of code of a page.
type Block struct {
	Page     string // from the root of the tree
	Line     int
	Language string // as a fence names it
	Text     string
}

// Command is one that a page has.
type Command struct {
	Page   string
	Line   int
	Text   string   // one line, except for a here document
	Output []string // what the page shows as its answer
}

// Oneline is a command without the spaces that do not matter.
func Oneline(command string) string { return strings.Join(strings.Fields(command), " ") }

// Guides are the pages whose commands people copy: README, the tutorial, and the guides among them.
func Guides(t testing.TB) []string {
	t.Helper()
	found := []string{"README.md", "docs/tutorial.md", "docs/runbooks.md", "docs/conformance.md"}
	for _, pattern := range []string{"docs/guides/*.md", "docs/neighbours/*.md"} {
		paths, err := filepath.Glob(tree.Path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			relative, err := filepath.Rel(tree.Path(), path)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, relative)
		}
	}
	return found
}

// Read returns the blocks of a page of the tree.
func Read(t testing.TB, page string) []Block {
	t.Helper()
	raw, err := os.ReadFile(tree.Path(page))
	if err != nil {
		t.Fatal(err)
	}
	return Blocks(page, raw)
}

// Blocks returns the blocks of code of Markdown, also those in lists.
func Blocks(page string, markdown []byte) (found []Block) {
	document := goldmark.DefaultParser().Parse(text.NewReader(markdown))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != ast.KindCodeBlock && n.Kind() != ast.KindFencedCodeBlock || n.Lines().Len() == 0 {
			return ast.WalkContinue, nil
		}
		b := Block{Page: page, Line: 1 + strings.Count(string(markdown[:n.Lines().At(0).Start]), "\n")}
		if fenced, is := n.(*ast.FencedCodeBlock); is {
			b.Language = string(fenced.Language(markdown))
		}
		b.Text = string(n.Lines().Value(markdown))
		found = append(found, b)
		return ast.WalkContinue, nil
	})
	return found
}

// programs are those with which commands of the pages begin.
var programs = []string{
	"arp", "bin/sandbox", "ctr", "curl", "docker", "export", "for", "git", "go", "helm", "helpers/release", "ip", "iptables-save", "kubectl",
	"make", "nft", "promtool", "sandbox", "sed", "ssh",
}

var (
	comment    = regexp.MustCompile(`\s+#\s.*$`)
	heredoc    = regexp.MustCompile(`<<-?\s*'?(\w+)'?`)
	assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)
)

// begins says whether a line begins with a command that the pages use.
func begins(line string) bool {
	words := strings.Fields(line)
	for len(words) > 1 && assignment.MatchString(words[0]) {
		return true
	}
	return len(words) > 0 && slices.Contains(programs, words[0])
}

// Hidden returns a line of a block that is not for the shell, but looks like a command.
func (b Block) Hidden() string {
	if b.IsShell() {
		return ""
	}
	for line := range strings.Lines(b.Text) {
		if line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ ")); begins(line) {
			return line
		}
	}
	return ""
}

// IsShell says whether people type what is in the block.
func (b Block) IsShell() bool {
	if b.Language != "" {
		return b.Language == "sh" || b.Language == "bash" || b.Language == "console"
	}
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "#!") {
			continue
		}
		if strings.HasPrefix(line, "$ ") {
			return true
		}
		return begins(line)
	}
	return false
}

// complete says whether the shell would run a line, or wait for another.
func complete(line string) bool { return exec.Command("bash", "-n", "-c", line).Run() == nil }

// Known says whether the command begins with a program that the pages use. If not, it may be
// the output of another: in a block without "$ ", all lines are commands.
func (c Command) Known() bool { return begins(c.Text) }

// Commands returns the commands of a block that is for the shell. In a transcript, these are
// the lines that begin with "$ "; what follows is their output.
func (b Block) Commands() (found []Command) {
	if !b.IsShell() {
		return nil
	}
	lines := strings.Split(strings.TrimRight(b.Text, "\n"), "\n")
	transcript := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	for i := 0; i < len(lines); i++ {
		line, typed := strings.CutPrefix(lines[i], "$ ")
		switch {
		case transcript && !typed:
			if len(found) > 0 {
				last := &found[len(found)-1]
				last.Output = append(last.Output, lines[i])
			}
			continue
		case strings.TrimSpace(line) == "", strings.HasPrefix(strings.TrimSpace(line), "#"):
			continue
		}
		c := Command{Page: b.Page, Line: b.Line + i}
		line = comment.ReplaceAllString(line, "")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(comment.ReplaceAllString(lines[i], ""))
		}
		for i+1 < len(lines) && !complete(line) {
			i++
			line += "\n" + lines[i]
		}
		if end := heredoc.FindStringSubmatch(line); end != nil {
			for i+1 < len(lines) && lines[i] != end[1] {
				i++
				line += "\n" + lines[i]
			}
		}
		c.Text = line
		found = append(found, c)
	}
	return found
}
