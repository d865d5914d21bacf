// Package pictures draws the pictures of the documentation, as SVG files in docs/images.
// "make generate" writes them. They have no dependency, are readable on a light and on a
// dark page, and the site has them inline, so that they follow its theme.
package pictures

import (
	"fmt"
	"html"
	"strings"
)

// Class is what the root element of every picture has. The site styles it with Rules, and
// with colours of its own.
const Class = "picture"

// Rules style the parts of a picture, with colours that are variables.
const Rules = `.picture { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif; }
.picture .paper { fill: var(--panel); stroke: var(--line); }
.picture text { fill: var(--ink); font-size: 14px; }
.picture .head { font-size: 16px; font-weight: 600; }
.picture .strong { font-weight: 600; }
.picture .soft { fill: var(--soft); font-size: 12.5px; }
.picture .code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 12.5px; }
.picture .number { font-size: 12px; font-weight: 600; fill: var(--panel); }
.picture .big { font-size: 20px; font-weight: 650; }
.picture .middle { text-anchor: middle; }
.picture .box { fill: var(--bg); stroke: var(--faint); }
.picture .good { fill: var(--pick); stroke: var(--used); }
.picture .warn { fill: var(--bg); stroke: var(--reserved); }
.picture .bad { fill: var(--bg); stroke: var(--bad); }
.picture .lane { fill: var(--bg); stroke: none; }
.picture .bar { fill: var(--used); }
.picture .other { fill: var(--node); }
.picture .grid { stroke: var(--line); }
.picture .line { fill: none; stroke: var(--soft); stroke-width: 1.5; }
.picture .active { fill: none; stroke: var(--used); stroke-width: 2; }
.picture .tip { fill: var(--soft); }
.picture .activetip { fill: var(--used); }
`

// The colours of the live page.
const colours = `.picture { --bg: #f6f5f1; --panel: #fffefb; --ink: #1f2730; --soft: #5b6570; --faint: #a3a9b0; --line: #e5e2da; --pick: #e3efec; --used: #2f7f79; --reserved: #cfa146; --node: #8b97ae; --bad: #c0452f; }
@media (prefers-color-scheme: dark) { .picture { --bg: #10151b; --panel: #161c24; --ink: #dde4ec; --soft: #9aa6b4; --faint: #566171; --line: #242c37; --pick: #1d3236; --used: #4caea4; --reserved: #d3ad5c; --node: #5d6b84; --bad: #ef7f6c; } }
`

// picture is one that is being drawn. Coordinates are pixels from the top left.
type picture struct {
	name          string // of the file, without its ending
	title         string // for those who do not see it
	width, height int
	drawn         strings.Builder
}

// SVG is the finished file.
func (p *picture) SVG() []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<!-- Made by docs/pictures. Do not edit. -->
<style>
%s%s</style>
<defs>
<marker id="%[9]s-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker>
<marker id="%[9]s-activetip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="activetip" d="M0,0 L8,4 L0,8 z"/></marker>
</defs>
<rect class="paper" x="0.5" y="0.5" width="%[10]d" height="%[11]d" rx="8"/>
%[12]s</svg>
`, Class, p.width, p.height, p.width, p.height, html.EscapeString(p.title), colours, Rules, p.name, p.width-1, p.height-1, p.drawn.String())
}

func (p *picture) draw(format string, args ...any) { fmt.Fprintf(&p.drawn, format+"\n", args...) }

// text writes a line; y is its baseline.
func (p *picture) text(x, y int, class, line string) {
	p.draw(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, html.EscapeString(line))
}

const lineHeight = 18

// lines writes lines below each other; y is the baseline of the first.
func (p *picture) lines(x, y int, class string, lines ...string) {
	for i, line := range lines {
		p.text(x, y+i*lineHeight, class, line)
	}
}

// area is a rectangle of a picture.
type area struct{ x, y, width, height int }

func (a area) middle() int { return a.x + a.width/2 }
func (a area) centre() int { return a.y + a.height/2 }
func (a area) right() int  { return a.x + a.width }
func (a area) bottom() int { return a.y + a.height }

func (p *picture) rect(a area, class string) {
	p.draw(`<rect x="%d" y="%d" width="%d" height="%d" rx="6" class="%s"/>`, a.x, a.y, a.width, a.height, class)
}

// box is a rectangle with lines in its middle. The first is strong if there are others.
func (p *picture) box(a area, class string, lines ...string) {
	p.rect(a, class)
	y := a.centre() - (len(lines)-1)*lineHeight/2 + 5
	for i, line := range lines {
		switch {
		case i == 0 && len(lines) > 1:
			p.text(a.middle(), y, "middle strong", line)
		case i == 0:
			p.text(a.middle(), y, "middle", line)
		default:
			p.text(a.middle(), y+i*lineHeight, "middle soft", line)
		}
	}
}

// number is a step's, in a disc around x, y.
func (p *picture) number(x, y, n int) {
	p.draw(`<circle cx="%d" cy="%d" r="10" class="bar"/>`, x, y)
	p.text(x, y+4, "middle number", fmt.Sprint(n))
}

// arrow goes through points, which are pairs of coordinates.
func (p *picture) arrow(points ...int) { p.path("line", "tip", points) }

// activeArrow is one that stands out.
func (p *picture) activeArrow(points ...int) { p.path("active", "activetip", points) }

func (p *picture) path(class, tip string, points []int) {
	var path strings.Builder
	for i := 0; i+1 < len(points); i += 2 {
		fmt.Fprintf(&path, "%c%d,%d ", "ML"[min(i, 1)], points[i], points[i+1])
	}
	p.draw(`<path d="%s" class="%s" marker-end="url(#%s-%s)"/>`, strings.TrimSpace(path.String()), class, p.name, tip)
}
