package site

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// contents is the page that lists all others; the sidebar has its order.
const contents = "docs/README.md"

// section is one of the sidebar.
type section struct {
	Name    string
	Entries []entry
}

type entry struct{ Name, URL string }

// sections of the sidebar. A page is in the first that wants it.
var sections = []struct {
	name string
	has  func(path string) bool
}{
	{"Start", func(p string) bool { return p == "README.md" || p == contents || p == "docs/tutorial.md" }},
	{"Reference", under("docs/reference")},
	{"Neighbours", under("docs/neighbours")},
	{"Migrate", func(p string) bool { return strings.HasPrefix(path.Base(p), "migrate-") }},
	{"Guides", func(p string) bool { return path.Dir(p) == "docs/guides" || p == "docs/runbooks.md" }},
	{"Background", func(string) bool { return true }},
}

// shown is the order of sections in the sidebar.
var shown = []string{"Start", "Guides", "Migrate", "Neighbours", "Reference", "Background"}

func under(dir string) func(string) bool {
	return func(p string) bool { return path.Dir(p) == dir }
}

// menu makes the sidebar. A page of docs/ that the list of contents does not have would never
// be found.
func (b *builder) menu() ([]section, error) {
	list := b.pages[contents]
	if list == nil {
		return nil, errors.New("there is no " + contents)
	}
	order := []string{"README.md", contents}
	_ = ast.Walk(list.document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, is := n.(*ast.Link); is && entering {
			to, _, _ := strings.Cut(string(l.Destination), "#")
			order = append(order, path.Join(path.Dir(contents), to))
		}
		return ast.WalkContinue, nil
	})
	var wrong []error
	for _, p := range b.sorted() {
		if !slices.Contains(order, p.path) {
			if strings.HasPrefix(p.path, "docs/") {
				wrong = append(wrong, fmt.Errorf("%s does not list %s", contents, p.path))
			}
			order = append(order, p.path)
		}
	}
	entries := map[string][]entry{}
	seen := map[string]bool{}
	for _, at := range order {
		p := b.pages[at]
		if p == nil || seen[at] {
			continue
		}
		seen[at] = true
		for _, s := range sections {
			if s.has(at) {
				entries[s.name] = append(entries[s.name], entry{p.title, p.url()})
				break
			}
		}
	}
	var menu []section
	for _, name := range shown {
		if len(entries[name]) > 0 {
			menu = append(menu, section{name, entries[name]})
		}
	}
	return menu, errors.Join(wrong...)
}

// neighbours are the pages before and after one in the sidebar.
func neighbours(menu []section, url string) (previous, next *entry) {
	var all []entry
	for _, s := range menu {
		all = append(all, s.Entries...)
	}
	i := slices.IndexFunc(all, func(e entry) bool { return e.URL == url })
	if i > 0 {
		previous = &all[i-1]
	}
	if i >= 0 && i+1 < len(all) {
		next = &all[i+1]
	}
	return previous, next
}
