// Package site makes a static site of the documentation: HTML that needs no server, with a
// sidebar and a search. A link that leads nowhere is an error.
package site

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"

	"fairlead.io/docs/pictures"
)

//go:embed page.html
var pageHTML string

//go:embed site.css
var css []byte

//go:embed site.js
var script []byte

var layout = template.Must(template.New("page").Parse(pageHTML))

// Files are those of a site, by their paths in it.
type Files map[string][]byte

// page is one of the site: a Markdown file of the tree.
type page struct {
	path     string // in the tree
	source   []byte
	document ast.Node
	title    string
	headings []heading
}

// heading is one of a page, with the text up to the next.
type heading struct {
	level    int
	id, name string
	text     strings.Builder
}

// url is where the page is in the site.
func (p *page) url() string { return urlOf(p.path) }

func urlOf(markdown string) string {
	dir, name := path.Split(markdown)
	if name == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(markdown, ".md") + ".html"
}

// builder makes one site.
type builder struct {
	tree  fs.FS
	pages map[string]*page // by path in the tree
	files Files
	wrong []error
}

// Build makes the site of all Markdown of a tree. Sources that pages link to are part of it.
func Build(tree fs.FS) (Files, error) {
	b := &builder{tree: tree, pages: map[string]*page{}, files: Files{}}
	if err := b.read(); err != nil {
		return nil, err
	}
	menu, err := b.menu()
	if err != nil {
		return nil, err
	}
	for _, p := range b.sorted() {
		b.resolve(p)
	}
	if err := errors.Join(b.wrong...); err != nil {
		return nil, err
	}
	for _, p := range b.sorted() {
		body, err := b.render(p)
		if err != nil {
			return nil, err
		}
		if err := b.write(p.url(), p.title, template.HTML(body), menu, p); err != nil { //nolint:gosec // goldmark escapes it
			return nil, err
		}
	}
	index, err := b.index()
	if err != nil {
		return nil, err
	}
	b.files["index.js"] = index
	b.files["site.css"] = append(bytes.Clone(css), pictures.Rules...)
	b.files["site.js"] = script
	return b.files, nil
}

// read parses all pages of the tree.
func (b *builder) read() error {
	return fs.WalkDir(b.tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "dist" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		source, err := fs.ReadFile(b.tree, name)
		if err != nil {
			return err
		}
		b.pages[name] = parse(name, source)
		if b.pages[name].title == "" {
			return fmt.Errorf("%s has no title: its first line must be a heading", name)
		}
		return nil
	})
}

// view is what the layout shows.
type view struct {
	Title string
	Root  string // the way to the site's root
	Menu  []section
	Here  string
	Parts []part // of the page
	Body  template.HTML
	// Previous and Next are the neighbours in the menu.
	Previous, Next *entry
}

type part struct{ ID, Name string }

func (b *builder) write(url, title string, body template.HTML, menu []section, p *page) error {
	v := view{Title: title, Root: strings.Repeat("../", strings.Count(url, "/")), Menu: menu, Here: url, Body: body}
	if p != nil {
		for i := range p.headings {
			if h := &p.headings[i]; h.level == 2 {
				v.Parts = append(v.Parts, part{h.id, h.name})
			}
		}
		v.Previous, v.Next = neighbours(menu, url)
	}
	var out bytes.Buffer
	if err := layout.Execute(&out, v); err != nil {
		return fmt.Errorf("make %s: %w", url, err)
	}
	b.files[url] = out.Bytes()
	return nil
}
