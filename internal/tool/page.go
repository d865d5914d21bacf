package tool

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"fairlead.io/internal/snapshot"
)

// page writes text for people. On a terminal it has colours, unless $NO_COLOR is set,
// and lines no longer than the terminal is wide.
type page struct {
	out    io.Writer
	width  int // 0 is any
	colour bool
}

func newPage(out io.Writer) *page {
	width, is := terminal(out)
	return &page{out: out, width: width, colour: is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// ANSI colours.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

func (p *page) paint(colour, text string) string {
	if !p.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// line writes one line: a head, which may be coloured, and text that is wrapped below
// itself.
func (p *page) line(colour, head, text string) {
	indent := utf8.RuneCountInString(head)
	lines := wrap(inert(text), p.width-indent)
	for i, l := range lines {
		if i == 0 {
			fmt.Fprintln(p.out, strings.TrimRight(p.paint(colour, head)+l, " "))
		} else {
			fmt.Fprintln(p.out, strings.Repeat(" ", indent)+l)
		}
	}
}

// inert has no characters that control a terminal: tenants write events and annotations.
func inert(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return utf8.RuneError
		}
		return r
	}, text)
}

// wrap breaks text into lines of at most width characters, at blanks.
func wrap(text string, width int) (out []string) {
	if width < 20 {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			out, line = append(out, line), word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// table writes rows in columns.
func (p *page) table(head []string, rows [][]string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = inert(row[i])
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
	}
	_ = w.Flush()
}

// unknown writes what could not be read.
func (p *page) unknown(all []string) {
	for _, u := range all {
		p.line(yellow, "? ", "unknown: "+u)
	}
}

// mark returns the sign of a step and its colour.
func mark(m snapshot.Mark) (sign, colour string) {
	switch m {
	case snapshot.Passed:
		return "✓", green
	case snapshot.Failed:
		return "✗", red
	case snapshot.Unclear:
		return "?", yellow
	case snapshot.Noted:
		return "!", yellow
	case snapshot.Skipped:
	}
	return "-", ""
}

// document writes an answer as JSON or YAML, with apiVersion and kind.
func document(out io.Writer, format, kind string, a any) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	fields["apiVersion"], fields["kind"] = "fairlead.io/v1alpha1", kind
	if format == "yaml" {
		data, err = yaml.Marshal(fields)
	} else if data, err = json.MarshalIndent(fields, "", "  "); err == nil {
		data = append(data, '\n')
	}
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}
