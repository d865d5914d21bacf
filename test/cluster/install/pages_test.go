package install

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/site"
)

// onNodes are the commands of pages that need nodes, by their beginning, and what they say.
// The table in test/api/tool has those of all pages.
var onNodes = []struct{ page, command, want string }{
	{"docs/tutorial.md", "sandbox exec client guest get", " answers "},
	{"docs/tutorial.md", "sandbox cut node2", ""},
	{"docs/tutorial.md", "sandbox heal node2", ""},
	{"docs/guides/sandbox.md", "bin/sandbox status", "node3"},
	{"docs/guides/sandbox.md", "bin/sandbox exec client -- guest get", " answers "},
	{"docs/guides/sandbox.md", "bin/sandbox exec client -- ip neighbour", "ADDRESS "},
	{"docs/guides/sandbox.md", "bin/sandbox exec node1 -- ip address", ""},
	{"docs/guides/sandbox.md", "bin/sandbox exec node1 -- nft", "table inet fairlead"},
	{"docs/guides/announce.md", "ip address", "ADDRESS/32"},
	{"docs/guides/announce.md", "nft list table arp", "table arp fairlead"},
	{"docs/guides/announce.md", "nft list table inet", "table inet fairlead"},
}

// runCommandsOfPages runs these as they are on the pages, in their order: those of the sandbox
// with this cluster's name, and those for a node on the one that announces the address.
func runCommandsOfPages(t *testing.T, address string, announcer func() string) {
	t.Helper()
	ran := map[int]bool{}
	for _, page := range []string{"docs/guides/sandbox.md", "docs/guides/announce.md", "docs/tutorial.md"} {
		for _, b := range pages.Read(t, page) {
			for _, c := range b.Commands() {
				for i, o := range onNodes {
					if o.page != page || !strings.HasPrefix(c.Text, o.command) {
						continue
					}
					ran[i] = true
					line := strings.ReplaceAll(c.Text, "10.77.0.200", address)
					if at := regexp.MustCompile(`^(bin/)?sandbox `).FindString(line); at != "" {
						line = "sandbox --name " + cluster.Name + " " + strings.TrimPrefix(line, at)
					} else {
						line = "sandbox --name " + cluster.Name + " exec " + announcer() + " -- " + line
					}
					eventually(t, fmt.Sprintf("%s:%d: %s", page, c.Line, c.Text), func() error {
						out, err := site.Shell(t.Context(), cluster, line)
						if want := strings.ReplaceAll(o.want, "ADDRESS", address); err == nil && !strings.Contains(out, want) {
							err = fmt.Errorf("no %q in\n%s", want, out)
						}
						return err
					})
				}
			}
		}
	}
	for i, o := range onNodes {
		if !ran[i] {
			t.Errorf("%s has no command %s", o.page, o.command)
		}
	}
}
