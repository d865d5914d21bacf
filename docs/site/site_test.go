package site

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"fairlead.io/test/kit/browser"
	"fairlead.io/test/kit/tree"
)

// tiny is a tree that has one of everything.
func tiny() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md":           "# Tiny\n\nSee [the docs](docs/README.md), [a part](docs/guides/one.md#on-cloudscalech), [code](internal/x.go), [all of it](internal) and [elsewhere](https://example.org/nothing).\n\n![a drawing](docs/images/a.svg) ![a photograph](docs/images/b.png)\n",
		"docs/README.md":      "# Contents\n\n- [one](guides/one.md)\n",
		"docs/guides/one.md":  "# One & only\n\n<!-- if page -->\n\n## On cloudscale.ch\n\nFrobnicate `<b>` it. [Up](#one--only), [code](../../internal/x.go)\n\n| a |\n|---|\n| b |\n\n## Twice\n\n## Twice\n\n[second](#twice-1)\n",
		"docs/images/a.svg":   "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\"><style>.paper { fill: red; }</style><text>drawn</text></svg>",
		"docs/images/b.png":   "PNG",
		"internal/x.go":       "package x // <script>",
		"testdata/odd.md":     "no title",
		"bin/docs/index.html": "old",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestBuild(t *testing.T) {
	files, err := Build(tiny())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/guides/one.html", "docs/images/b.png", "docs/index.html", "index.html", "index.js", "site.css", "site.js",
		"source/internal.html", "source/internal/x.go.html",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files: %q, want %q", got, want)
	}
	for name, parts := range map[string][]string{
		"index.html":                {`href="docs/index.html"`, `href="docs/guides/one.html#on-cloudscalech"`, `href="source/internal/x.go.html"`, `<text>drawn</text>`, `src="docs/images/b.png"`, `href="https://example.org/nothing"`},
		"docs/guides/one.html":      {`<h2 id="on-cloudscalech">`, `href="#one--only"`, `href="../../source/internal/x.go.html"`, `<code>&lt;b&gt;</code>`, `href="../../site.css"`, `<li class="here"><a href="../../docs/guides/one.html">One &amp; only</a>`, `<div class="wide"><table>`, `id="twice-1"`, `href="#twice-1"`},
		"source/internal/x.go.html": {"package x // &lt;script&gt;"},
		"index.js":                  {`"u":"docs/guides/one.html#on-cloudscalech"`, `Frobnicate \u003cb\u003e it.`},
	} {
		for _, part := range parts {
			if !strings.Contains(string(files[name]), part) {
				t.Errorf("%s has no %s:\n%s", name, part, files[name])
			}
		}
	}
	for name, part := range map[string]string{"index.html": "fill: red", "docs/guides/one.html": "if page"} {
		if strings.Contains(string(files[name]), part) {
			t.Errorf("%s has %q:\n%s", name, part, files[name])
		}
	}
}

// A link that leads nowhere is an error that says where it is.
func TestBrokenLinks(t *testing.T) {
	for name, c := range map[string]struct{ page, text, want string }{
		"page":     {"docs/guides/one.md", "# One\n\ntext\n\n[gone](two.md)\n", "docs/guides/one.md:5: link to two.md: there is no docs/guides/two.md"},
		"anchor":   {"docs/guides/one.md", "# One\n\n## On cloudscale.ch\n\n- [gone](../README.md#nothing)\n", "docs/guides/one.md:5: link to ../README.md#nothing: docs/README.md has no such heading"},
		"here":     {"docs/guides/one.md", "# One\n\n## On cloudscale.ch\n\n[gone](#nothing)\n", "docs/guides/one.md:5: link to #nothing: docs/guides/one.md has no such heading"},
		"source":   {"docs/guides/one.md", "# One\n\n## On cloudscale.ch\n\n[`x`](../../internal/y.go)\n", "docs/guides/one.md:5: link to ../../internal/y.go: there is no internal/y.go"},
		"line":     {"docs/guides/one.md", "# One\n\n## On cloudscale.ch\n\n[x](../../internal/x.go#L1)\n", "docs/guides/one.md:5: link to ../../internal/x.go#L1: internal/x.go is not a page"},
		"picture":  {"docs/guides/one.md", "# One\n\n## On cloudscale.ch\n\n![gone](../images/c.svg)\n", "docs/guides/one.md:5: picture ../images/c.svg: there is no docs/images/c.svg"},
		"unlisted": {"docs/guides/two.md", "# Two\n", "docs/README.md does not list docs/guides/two.md"},
		"title":    {"docs/guides/two.md", "text\n", "docs/guides/two.md has no title"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tiny()
			files[c.page] = &fstest.MapFile{Data: []byte(c.text)}
			if _, err := Build(files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// ours makes the site of this tree.
func ours(t *testing.T) Files {
	t.Helper()
	files, err := Build(os.DirFS(tree.Path()))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Every link of our documentation leads somewhere, and no page loads anything from elsewhere.
func TestOurDocumentation(t *testing.T) {
	loads := regexp.MustCompile(`(?:src|url\(|<link[^>]*href)=?["'(]*(?:https?:)?//`)
	pages := 0
	for name, content := range ours(t) {
		if strings.HasPrefix(name, "source/") || filepath.Ext(name) != ".html" {
			continue
		}
		pages++
		if found := loads.Find(content); found != nil {
			t.Errorf("%s loads %s", name, found)
		}
	}
	if pages < 30 {
		t.Errorf("the site has only %d pages", pages)
	}
}

// In a real browser, from files: search, keys, dark and light.
func TestInBrowser(t *testing.T) {
	dir := t.TempDir()
	for name, content := range ours(t) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tab := browser.Start(t).Open("file://"+dir+"/docs/guides/pending.html", 1280, 900)
	tab.Until("the drawing is in the page", `document.querySelector("main svg.picture text") !== null`)
	tab.Dark(false)
	const paper = `getComputedStyle(document.querySelector("main svg.picture .paper")).fill`
	tab.Until("the drawing is light", paper+` === "rgb(255, 254, 251)"`)
	tab.Key("t")
	tab.Until("the drawing is dark", paper+` === "rgb(22, 28, 36)"`)

	tab.Key("/")
	tab.Until("the search has the keys", `document.activeElement.matches("#search input")`)
	search := func(words string) {
		if err := tab.Eval(`{ const i = document.querySelector("#search input"); i.value = "`+words+`"; i.dispatchEvent(new Event("input")); true }`, new(bool)); err != nil {
			t.Fatal(err)
		}
	}
	search("no such words anywhere")
	tab.Until("nothing is found", `document.querySelector("#search ol").textContent === "Nothing found."`)
	search("poolexhausted")
	tab.Until("the reason is found first", `document.querySelector("#search li a")?.href.endsWith("/docs/reference/reasons.html#poolexhausted")`)
	tab.Key("Enter")
	tab.Until("its page is open, and still dark", `location.href.endsWith("/docs/reference/reasons.html#poolexhausted") && document.documentElement.dataset.theme === "dark"`)
	tab.Until("the sidebar shows where one is", `document.querySelector("nav li.here > a").textContent === "Reasons"`)
	for _, url := range tab.Requests() {
		if !strings.HasPrefix(url, "file://"+dir+"/") {
			t.Errorf("the browser asked for %s", url)
		}
	}
	for _, problem := range tab.Problems() {
		t.Error(problem)
	}
}
