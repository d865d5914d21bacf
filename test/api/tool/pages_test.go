package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/tree"
)

// session runs the commands of pages in one cluster, in their order.
type session struct {
	name  string
	nodes []string
	pages []string
	// parts are the beginnings of the commands that run of a page, if not all do.
	parts map[string][]string
	// first are commands of the first page that run before all others.
	first []string
	// words of the pages stand for others of this cluster: one, and what it means, and so on.
	words []string
	// world changes the cluster before it starts. In one that has a world, the controller is
	// the real program, as a pod says.
	world func(*ground)
	// ready is shell that runs before the first command.
	ready string
}

// around is what is done for a command, which begins with text.
type around struct {
	page, command string
	nth           int      // of the commands of the page that begin so; 0 is all
	before, after string   // shell
	want          []string // in its output, within a while
}

// runs says whether a session runs a command.
func (s session) runs(c pages.Command) bool {
	if !slices.Contains(s.pages, c.Page) {
		return false
	}
	parts, has := s.parts[c.Page]
	return !has || slices.ContainsFunc(parts, func(begin string) bool { return strings.HasPrefix(pages.Oneline(c.Text), begin) })
}

// sessionOf is the first session that runs a command, or -1.
func sessionOf(c pages.Command) int {
	return slices.IndexFunc(sessions, func(s session) bool { return s.runs(c) })
}

// TestCommandsOfPages runs what people copy from README and the guides, as it is there, with
// a real API server, controller and agents. Nodes have no kubelet: what asks one has found
// the right pods if it gets that far. Commands for other machines are in elsewhere.
func TestCommandsOfPages(t *testing.T) {
	netns.Need(t, "jq")
	for i, s := range sessions {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			g := newGroundWith(t, func(g *ground) {
				if s.world != nil {
					g.programs = true
					s.world(g)
				}
			}, s.nodes...)
			g.furnish()
			var first, rest []pages.Command
			for _, page := range s.pages {
				for _, b := range pages.Read(t, page) {
					for _, c := range b.Commands() {
						switch {
						case sessionOf(c) != i || entryOf(c) >= 0:
						case page == s.pages[0] && slices.ContainsFunc(s.first, func(begin string) bool { return strings.HasPrefix(c.Text, begin) }):
							first = append(first, c)
						default:
							rest = append(rest, c)
						}
					}
				}
			}
			for _, c := range first {
				g.page(c, s.words)
			}
			if s.ready != "" {
				g.sh(s.ready)
			}
			if s.world == nil {
				g.create(endpointsOf("web", s.nodes...))
			}
			for len(rest) > 0 {
				page := rest[0].Page
				end := slices.IndexFunc(rest, func(c pages.Command) bool { return c.Page != page })
				if end < 0 {
					end = len(rest)
				}
				t.Run(page, func(t *testing.T) {
					here := *g
					here.T, here.typed = t, map[string]int{}
					if s.world == nil && page != s.pages[0] {
						here.sh("kubectl get service web || kubectl expose deployment web --port=80 --type=LoadBalancer")
					}
					for _, c := range rest[:end] {
						here.page(c, s.words)
					}
				})
				rest = rest[end:]
			}
		})
	}
}

// furnish has what the pages expect on the machine at which somebody sits.
func (g *ground) furnish() {
	g.Helper()
	g.typed = map[string]int{}
	g.shell = append(g.shell, "HOME="+g.dir, "EDITOR=true", "KUBE_EDITOR=true", "GIT_DIR="+tree.Path(".git"), "GIT_WORK_TREE="+tree.Path(), "T="+tree.Path("test/api"))
	g.shell = append(g.shell, g.variables...)
	for name, target := range map[string]string{"examples": tree.Path("examples"), "admin.conf": g.rig.API.Kubeconfig} {
		if err := os.Symlink(target, filepath.Join(g.dir, name)); err != nil {
			g.Fatal(err)
		}
	}
	archives, err := filepath.Glob("testdata/*.txtar") // what others leave in clusters
	if err != nil {
		g.Fatal(err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			g.Fatal(err)
		}
		for _, f := range archive.Files {
			if !strings.HasSuffix(f.Name, ".yaml") {
				continue
			}
			file := filepath.Join(g.dir, "left", strings.TrimSuffix(filepath.Base(path), ".txtar"), f.Name)
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if err == nil {
				err = os.WriteFile(file, f.Data, 0o600)
			}
			if err != nil {
				g.Fatal(err)
			}
		}
	}
}

// meant is a command with the words of this cluster.
func meant(text string, words []string) string {
	for i := 0; i+1 < len(words); i += 2 {
		word := regexp.QuoteMeta(words[i])
		if regexp.MustCompile(`^\w`).MatchString(words[i]) {
			word = `\b` + word
		}
		if regexp.MustCompile(`\w$`).MatchString(words[i]) {
			word += `\b`
		}
		text = regexp.MustCompile(word).ReplaceAllLiteralString(text, words[i+1])
	}
	return text
}

// page runs one command of a page.
func (g *ground) page(c pages.Command, words []string) {
	g.Helper()
	about := g.aroundOf(c)
	if about.before != "" {
		g.sh(about.before)
	}
	text := meant(c.Text, words)
	if set := assigned.FindString(text); set != "" { // for the commands that follow
		defer func() { g.set += text + "\n" }()
	} else {
		text = g.set + text
	}
	want := slices.Clone(about.want)
	for _, line := range shown(c) {
		want = append(want, pages.Oneline(line))
	}
	start := time.Now()
	try := func() error {
		out, err := g.keyed(text)
		if err == nil && strings.Contains(out, "No resources found") && regexp.MustCompile(`kubectl (logs|get (pods|deployment|daemonset))`).MatchString(text) {
			err = errors.New("there are none")
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w\n%s", c.Page, c.Line, text, err, out)
		}
		for _, w := range want {
			if !strings.Contains(pages.Oneline(age.ReplaceAllString(out, " ")), w) {
				return fmt.Errorf("%s:%d: %s: no %q in\n%s", c.Page, c.Line, text, w, out)
			}
		}
		return nil
	}
	err := try()
	for tick := time.NewTicker(time.Second); err != nil && len(want) > 0; <-tick.C {
		if err = try(); time.Since(start) > 90*time.Second {
			break
		}
	}
	if err != nil {
		g.Error(err)
	}
	if about.after != "" {
		g.sh(about.after)
	}
}

// assigned is a command that only sets a variable.
var assigned = regexp.MustCompile(`^[A-Z_]+=\$\(.*\)$`)

// age is a column that is never the same.
var age = regexp.MustCompile(`\s\d+[smh](\s|$)`)

// keyed runs a command as somebody at the keyboard does, who ends what does not end by itself.
func (g *ground) keyed(text string) (string, error) {
	g.Helper()
	ctx := g.Context()
	endless := regexp.MustCompile(`--watch|kubectl logs|port-forward|fairlead ui|fairlead controller`).MatchString(text)
	if endless {
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		ctx = limited
	}
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	c.Dir, c.Env, c.WaitDelay = g.dir, g.shell, time.Second
	out, err := c.CombinedOutput()
	g.Logf("$ %s\n%s", text, out)
	asksKubelet := slices.ContainsFunc([]string{
		":10250", "( pods/log ", "no preferred addresses found",
		"not have a host assigned", "not have a named port", // no kubelet starts pods here, so those of before an upgrade stay
	}, func(answer string) bool { return strings.Contains(string(out), answer) })
	reports := strings.HasPrefix(text, "kubectl fairlead ") && c.ProcessState.ExitCode() == 1 // problems, which are not the command's
	if strings.HasPrefix(text, "kubectl fairlead bundle") && c.ProcessState.ExitCode() == 2 && strings.Contains(string(out), "cannot read the log of pod") {
		reports = true // without kubelets there are no logs
	}
	if endless && (ctx.Err() != nil || asksKubelet) || reports {
		return string(out), nil
	}
	return string(out), err
}

// shown is the output that README shows: other pages show that of other clusters.
func shown(c pages.Command) (lines []string) {
	if c.Page != "README.md" {
		return nil
	}
	whole := strings.Join(c.Output, "\n")
	for _, line := range strings.Split(regexp.MustCompile(`\n {4,}`).ReplaceAllString(whole, " "), "\n") {
		if line = strings.TrimSpace(strings.ReplaceAll(line, "…", "")); line != "" {
			line = age.ReplaceAllString(line, " ")
			if strings.Contains(line, "LoadBalancer") && strings.Contains(line, "/TCP") { // its ClusterIP and its node port are random
				line = regexp.MustCompile(`192\.0\.2\.\d+`).FindString(line)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// aroundOf is what is done for a command; it counts those that begin alike.
func (g *ground) aroundOf(c pages.Command) around {
	found, counted := around{}, map[string]bool{}
	for _, a := range arounds {
		if a.page != c.Page || !strings.HasPrefix(pages.Oneline(c.Text), a.command) {
			continue
		}
		if !counted[a.command] {
			counted[a.command] = true
			g.typed[a.command]++
		}
		if found.command == "" && (a.nth == 0 || a.nth == g.typed[a.command]) {
			found = a
		}
	}
	return found
}
