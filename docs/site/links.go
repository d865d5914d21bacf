package site

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

func (b *builder) sorted() []*page {
	var all []*page
	for _, name := range slices.Sorted(maps.Keys(b.pages)) {
		all = append(all, b.pages[name])
	}
	return all
}

// resolve leads the links and pictures of a page to where they are in the site, and notes
// those that lead nowhere.
func (b *builder) resolve(p *page) {
	_ = ast.Walk(p.document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Link:
			var to string
			if to, err = b.target(p, string(n.Destination)); err == nil {
				n.Destination = []byte(to)
			}
		case *ast.Image:
			err = b.picture(p, n)
		}
		if err != nil {
			b.wrong = append(b.wrong, fmt.Errorf("%s:%d: %w", p.path, lineOf(n, p.source), err))
		}
		return ast.WalkContinue, nil
	})
}

// lineOf is the line of a node's text, or of what it is in.
func lineOf(n ast.Node, source []byte) int {
	for ; n != nil; n = n.Parent() {
		if t, is := n.FirstChild().(*ast.Text); is {
			return 1 + bytes.Count(source[:t.Segment.Start], []byte("\n"))
		}
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			return 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
		}
	}
	return 0
}

// target returns where a link of a page leads, as its HTML says it.
func (b *builder) target(from *page, link string) (string, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	name, anchor, hasAnchor := strings.Cut(link, "#")
	at := from.path
	if name != "" {
		at = path.Join(path.Dir(from.path), name)
	}
	info, err := fs.Stat(b.tree, at)
	if err != nil {
		return "", fmt.Errorf("link to %s: there is no %s", link, at)
	}
	if info.IsDir() && b.pages[path.Join(at, "README.md")] != nil {
		at = path.Join(at, "README.md")
	}
	to := b.pages[at]
	if to == nil {
		if hasAnchor {
			return "", fmt.Errorf("link to %s: %s is not a page", link, at)
		}
		return relative(from.url(), "source/"+at+".html"), b.source(at, info.IsDir())
	}
	if hasAnchor && !slices.ContainsFunc(to.headings, func(h heading) bool { return h.id == anchor }) {
		return "", fmt.Errorf("link to %s: %s has no such heading", link, at)
	}
	if hasAnchor {
		anchor = "#" + anchor
	}
	if name == "" {
		return anchor, nil
	}
	return relative(from.url(), to.url()) + anchor, nil
}

// relative is the way from one file of the site to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// picture puts a drawing into the page, and other pictures beside it.
func (b *builder) picture(p *page, n *ast.Image) error {
	at := path.Join(path.Dir(p.path), string(n.Destination))
	content, err := fs.ReadFile(b.tree, at)
	if err != nil {
		return fmt.Errorf("picture %s: there is no %s", n.Destination, at)
	}
	if path.Ext(at) == ".svg" {
		n.SetAttributeString("drawing", content)
		return nil
	}
	b.files[at] = content
	n.Destination = []byte(relative(p.url(), at))
	return nil
}

// source adds a file of the tree, or the list of a directory, that a page links to.
func (b *builder) source(at string, isDir bool) error {
	url := "source/" + at + ".html"
	if b.files[url] != nil {
		return nil
	}
	var content []byte
	if isDir {
		entries, err := fs.ReadDir(b.tree, at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			content = fmt.Appendln(content, e.Name())
		}
	} else {
		var err error
		if content, err = fs.ReadFile(b.tree, at); err != nil {
			return err
		}
	}
	body := "<h1><code>" + html.EscapeString(at) + "</code></h1><pre><code>" + html.EscapeString(string(content)) + "</code></pre>"
	return b.write(url, at, template.HTML(body), nil, nil) //nolint:gosec // escaped above
}
