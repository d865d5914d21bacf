package site

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

func markdown(options ...renderer.Option) goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(options...))
}

// parse reads a page, and finds its headings and their texts.
func parse(path string, source []byte) *page {
	p := &page{path: path, source: source}
	p.document = markdown().Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{}))))
	_ = ast.Walk(p.document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			name := plain(n, source)
			p.headings = append(p.headings, heading{level: n.Level, id: string(id.([]byte)), name: name})
			if p.title == "" {
				p.title = name
			}
			return ast.WalkSkipChildren, nil
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			p.say(string(n.Lines().Value(source)))
		case *ast.Text:
			p.say(string(n.Value(source)))
			if n.SoftLineBreak() {
				p.say(" ")
			}
		}
		if n.Type() == ast.TypeBlock {
			p.say(" ")
		}
		return ast.WalkContinue, nil
	})
	return p
}

// say adds to what the search finds below the last heading.
func (p *page) say(s string) {
	if len(p.headings) > 0 {
		p.headings[len(p.headings)-1].text.WriteString(s)
	}
}

// plain is the text of a node.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, is := n.(*ast.Text); is && entering {
			out.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// ids makes the anchors of headings as GitHub does, so that links work there and here.
type ids struct{ used []string }

func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, strings.TrimSpace(string(value)))
	unique := id
	for n := 1; slices.Contains(i.used, unique); n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	i.used = append(i.used, unique)
	return []byte(unique)
}

func (i *ids) Put(value []byte) { i.used = append(i.used, string(value)) }

// render makes the HTML of a page whose links are resolved.
func (b *builder) render(p *page) (string, error) {
	var out bytes.Buffer
	m := markdown(html.WithXHTML(), renderer.WithNodeRenderers(util.Prioritized(inline{b}, 100)))
	if err := m.Renderer().Render(&out, p.source, p.document); err != nil {
		return "", fmt.Errorf("make %s: %w", p.path, err)
	}
	return tables.ReplaceAllString(out.String(), `<div class="wide">$0</div>`), nil
}

// tables may be wider than the page.
var tables = regexp.MustCompile(`(?s)<table>.*?</table>`)

// inline renders drawings as part of the page, so that they follow its theme.
type inline struct{ b *builder }

func (r inline) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindImage, r.image)
	register.Register(ast.KindHTMLBlock, nothing) // comments for "kubectl fairlead migrate"
}

func nothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

var (
	style = regexp.MustCompile(`(?s)<style>.*?</style>\n?`)
	notes = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	blank = regexp.MustCompile(`\n+`)
)

func (r inline) image(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	image := n.(*ast.Image)
	if drawing, is := n.AttributeString("drawing"); is {
		svg := style.ReplaceAllString(string(drawing.([]byte)), "")
		_, err := w.WriteString(blank.ReplaceAllString(notes.ReplaceAllString(svg, ""), "\n"))
		return ast.WalkSkipChildren, err
	}
	_, err := fmt.Fprintf(w, `<img src="%s" alt="%s" loading="lazy"/>`, util.EscapeHTML(image.Destination), util.EscapeHTML([]byte(plain(n, source))))
	return ast.WalkSkipChildren, err
}
