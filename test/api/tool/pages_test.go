package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/tree"
)

// session runs the commands of pages in one cluster, in their order.
type session struct {
	name  string
	nodes []string
	pages []string
	// first are commands of the first page that run before all others.
	first []string
	// words of the pages stand for others of this cluster.
	words map[string]string
}

// around is what is done for a command, which begins with text.
type around struct {
	page, command string
	before, after string   // shell
	want          []string // in its output, within a while
}

// TestCommandsOfPages runs what people copy from README and the guides, as it is there, with
// a real API server, controller and agents. Nodes have no kubelet: what asks one has found
// the right pods if it gets that far. Commands of other pages and for other machines are in
// elsewhere, or tests have them literally.
func TestCommandsOfPages(t *testing.T) {
	netns.Need(t, "jq")
	for _, s := range sessions {
		t.Run(s.name, func(t *testing.T) {
			g := newGround(t, s.nodes...)
			g.shell = append(g.shell, "HOME="+g.dir, "EDITOR=true", "KUBE_EDITOR=true")
			if err := os.Symlink(tree.Path("examples"), g.dir+"/examples"); err != nil {
				t.Fatal(err)
			}
			var first, rest []pages.Command
			for _, page := range s.pages {
				for _, b := range pages.Read(t, page) {
					for _, c := range b.Commands() {
						switch {
						case !runsHere(c):
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
			g.sh("kubectl create deployment web --image=nginx --replicas=3")
			g.create(endpointsOf("web", s.nodes...))
			for len(rest) > 0 {
				page := rest[0].Page
				end := slices.IndexFunc(rest, func(c pages.Command) bool { return c.Page != page })
				if end < 0 {
					end = len(rest)
				}
				t.Run(page, func(t *testing.T) {
					here := &ground{T: t, rig: g.rig, dir: g.dir, shell: g.shell}
					if page != s.pages[0] {
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

// page runs one command of a page.
func (g *ground) page(c pages.Command, words map[string]string) {
	g.Helper()
	about := aroundOf(c)
	if about.before != "" {
		g.sh(about.before)
	}
	text := c.Text
	for word, means := range words {
		text = regexp.MustCompile(`(^|[\s/=:])`+regexp.QuoteMeta(word)+`\b`).ReplaceAllString(text, "${1}"+means)
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
		if err = try(); time.Since(start) > 5*time.Minute {
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

// age is a column that is never the same.
var age = regexp.MustCompile(`\s\d+[smh](\s|$)`)

// keyed runs a command as somebody at the keyboard does, who ends what does not end by itself.
func (g *ground) keyed(text string) (string, error) {
	g.Helper()
	ctx := g.Context()
	endless := regexp.MustCompile(`--watch|kubectl logs|port-forward|fairlead ui`).MatchString(text)
	if endless {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		ctx = limited
	}
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	c.Dir, c.Env, c.WaitDelay = g.dir, g.shell, time.Second
	out, err := c.CombinedOutput()
	g.Logf("$ %s\n%s", text, out)
	// No kubelet starts pods here, so those of before an upgrade stay.
	asksKubelet := strings.Contains(string(out), ":10250") || strings.Contains(string(out), "not have a host assigned") || strings.Contains(string(out), "not have a named port")
	reports := strings.HasPrefix(text, "kubectl fairlead ") && c.ProcessState.ExitCode() == 1 // problems, which are not the command's
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

func aroundOf(c pages.Command) around {
	for _, a := range arounds {
		if a.page == c.Page && strings.HasPrefix(pages.Oneline(c.Text), a.command) {
			return a
		}
	}
	return around{}
}
