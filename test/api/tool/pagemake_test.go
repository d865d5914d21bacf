package tool

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/tree"
)

// commandsOf are the commands of all pages that begin with text.
func commandsOf(t *testing.T, text string) (found []pages.Command) {
	t.Helper()
	for _, page := range pages.Guides(t) {
		for _, b := range pages.Read(t, page) {
			for _, c := range b.Commands() {
				if strings.HasPrefix(c.Text, text) {
					found = append(found, c)
				}
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("no page has a command %s", text)
	}
	return found
}

// Make knows the targets and variables of the pages, and the sandbox knows the flags that
// make gives it. Suites in test/cluster start such clusters.
func TestMakeOfPages(t *testing.T) {
	sandbox := tree.Binary(t, "sandbox")
	for _, c := range commandsOf(t, "make ") {
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Text, "make "), " && ")
		say := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--no-print-directory"}, strings.Fields(first)...)...)
		say.Dir = tree.Path()
		out, err := say.CombinedOutput()
		if err != nil {
			t.Errorf("%s:%d: %s: %v\n%s", c.Page, c.Line, c.Text, err, out)
		}
		for line := range strings.Lines(string(out)) {
			args, is := strings.CutPrefix(strings.TrimSpace(line), "bin/sandbox ")
			if !is {
				continue
			}
			if said, err := exec.CommandContext(t.Context(), sandbox, append(strings.Fields(args), "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %s runs %s: %v\n%s", c.Page, c.Line, c.Text, line, err, said)
			}
		}
		if _, variable, has := strings.Cut(first, "="); has && !strings.Contains(string(out), " "+variable) {
			t.Errorf("%s:%d: %s does nothing with %s:\n%s", c.Page, c.Line, c.Text, variable, out)
		}
	}
}

// The simulated cloud runs alone, and says how to use it.
func TestCloudAloneOfPages(t *testing.T) {
	for _, c := range commandsOf(t, "bin/sandbox cloudscale ") {
		cmd := exec.CommandContext(t.Context(), tree.Binary(t, "sandbox"), strings.Fields(c.Text)[1:]...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if strings.Contains(said.String(), "CLOUDSCALE_API_URL=http") && strings.Contains(said.String(), "CLOUDSCALE_ACCESS_TOKEN=") {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		if !strings.Contains(said.String(), "CLOUDSCALE_API_URL=http") || !strings.Contains(said.String(), "CLOUDSCALE_ACCESS_TOKEN=") {
			t.Errorf("%s:%d: %s says\n%s", c.Page, c.Line, c.Text, said.String())
		}
	}
}
