package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"fairlead.io/docs/guides"
)

// Step of a guide, with the names of the cluster.
type Step struct {
	// Number in the guide; empty if it has none there.
	Number string `json:"number,omitempty"`
	Title  string `json:"title"`
	Parts  []Part `json:"parts,omitempty"`
}

// Part of a step: sentences, or commands for a shell.
type Part struct {
	Text     string `json:"text,omitempty"`
	Commands string `json:"commands,omitempty"`
}

// Commands of all steps, in their order.
func Commands(steps []Step) (out []string) {
	for _, s := range steps {
		for _, p := range s.Parts {
			if p.Commands != "" {
				out = append(out, p.Commands)
			}
		}
	}
	return out
}

// choice is what of a guide applies to a cluster, and the names that it has there.
type choice struct {
	// sections to follow, by their headings.
	sections []string
	// holds has the conditions of the guide. One that is not in it is an error. "page" is
	// for readers of the page only, and never holds.
	holds map[string]bool
	// names are pairs: what the guide says, and what the cluster has.
	names []string
	// each repeats a part for each of several things: pairs as names.
	each map[string][][]string
}

// A guide is a page of Markdown. Comments on lines of their own say what is for whom:
//
//	<!-- if NAME -->      only if the condition holds
//	<!-- each NAME -->    once for each
//	<!-- end -->
//	<!-- steps HEADING --> the steps of another section; if they apply, it is between if and end
//
// A paragraph that begins with "**1. Title.**" or "**Title.**" begins a step. Blocks of
// code are commands. Other headings, lists and tables end a section's steps.
var (
	marker    = regexp.MustCompile(`^<!-- (if|each|end|steps) ?(.*?) -->$`)
	stepTitle = regexp.MustCompile(`^\*\*(?:(\d+)\. )?([^*]+)\*\*(.*)$`)
	link      = regexp.MustCompile(`\[([^\]]*)\]\([^)\s]*\)`)
)

// stepsOf reads the steps of a guide that apply.
func stepsOf(file string, c choice) ([]Step, error) {
	page, err := guides.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := c.inPage(string(page)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []Step
	for _, heading := range c.sections {
		steps, err := c.stepsBelow(string(page), heading)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, steps...)
	}
	return out, nil
}

// stepsBelow reads the section with a heading.
func (c choice) stepsBelow(page, heading string) ([]Step, error) {
	text, found := section(page, heading)
	if !found {
		return nil, fmt.Errorf("there is no section %q", heading)
	}
	steps, err := c.steps(page, text)
	if err != nil {
		return nil, fmt.Errorf("section %q: %w", heading, err)
	}
	return steps, nil
}

// inPage wants the page to say all that is replaced: otherwise a step would keep a name
// that the cluster does not have.
func (c choice) inPage(page string) error {
	page = strings.Join(strings.Fields(page), " ")
	all := [][]string{c.names}
	for name, each := range c.each {
		if name != eachService { // no page has all forms of it
			all = append(all, each...)
		}
	}
	for _, pairs := range all {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(page, strings.Join(strings.Fields(pairs[i]), " ")) {
				return fmt.Errorf("it does not say %q", pairs[i])
			}
		}
	}
	return nil
}

// section returns the text below a heading, to the next one.
func section(page, heading string) (string, bool) {
	var out []string
	inside, fenced := false, false
	for line := range strings.SplitSeq(page, "\n") {
		fenced = fenced != strings.HasPrefix(line, "```")
		if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") && !fenced {
			if inside {
				return strings.Join(out, "\n"), true
			}
			inside = title == heading
			continue
		}
		if inside {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n"), inside
}

// steps reads a section of a page.
func (c choice) steps(page, text string) (out []Step, err error) {
	names := [][]string{c.names}
	shown := true
	for _, b := range blocks(text) {
		if m := marker.FindStringSubmatch(b.text); m != nil {
			switch m[1] {
			case "end":
				shown, names = true, [][]string{c.names}
			case "if":
				holds, known := c.holds[m[2]]
				if !known && m[2] != "page" {
					return nil, fmt.Errorf("nothing says whether %q holds", m[2])
				}
				shown = holds
			case "each":
				each, known := c.each[m[2]]
				if !known {
					return nil, fmt.Errorf("nothing says what %q is", m[2])
				}
				shown, names = true, nil
				for _, of := range each {
					names = append(names, slices.Concat(of, c.names))
				}
			case "steps":
				if !shown {
					continue
				}
				others, err := c.stepsBelow(page, m[2])
				if err != nil {
					return nil, err
				}
				out = append(out, others...)
			}
			continue
		}
		if !shown {
			continue
		}
		for _, pairs := range names {
			out = appendBlock(out, b, strings.NewReplacer(pairs...))
		}
	}
	return out, nil
}

// appendBlock adds a block to the last step, or begins one.
func appendBlock(out []Step, b block, names *strings.Replacer) []Step {
	if b.code {
		if len(out) == 0 {
			return out // before the first step
		}
		last := &out[len(out)-1]
		last.Parts = append(last.Parts, Part{Commands: names.Replace(b.text)})
		return out
	}
	text := names.Replace(link.ReplaceAllString(b.text, "$1"))
	if m := stepTitle.FindStringSubmatch(text); m != nil {
		title, rest, cut := m[2], strings.TrimSpace(m[3]), true
		if !strings.HasSuffix(title, ".") { // the title is the beginning of a sentence
			title, rest, cut = strings.Cut(title+m[3], ". ")
		}
		if cut {
			title = strings.TrimSuffix(title, ".") + "."
		}
		s := Step{Number: m[1], Title: title}
		if rest != "" {
			s.Parts = append(s.Parts, Part{Text: rest})
		}
		return append(out, s)
	}
	if len(out) > 0 {
		last := &out[len(out)-1]
		last.Parts = append(last.Parts, Part{Text: text})
	}
	return out
}

// block is a paragraph, a block of code, or a marker.
type block struct {
	text string
	code bool
}

// blocks splits Markdown.
func blocks(text string) (out []block) {
	var lines []string
	code, fenced := false, false
	flush := func() {
		if joined := strings.Trim(strings.Join(lines, "\n"), "\n"); joined != "" {
			if !code {
				joined = strings.Join(strings.Fields(joined), " ")
			}
			out = append(out, block{text: joined, code: code})
		}
		lines, code = nil, false
	}
	for line := range strings.SplitSeq(text, "\n") {
		indented, is := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			flush()
			fenced = !fenced
			code = fenced
		case fenced:
			lines = append(lines, line)
		case marker.MatchString(line):
			flush()
			lines = append(lines, line)
			flush()
		case is && (code || len(lines) == 0):
			code = true
			lines = append(lines, indented)
		case strings.TrimSpace(line) == "":
			flush()
		default:
			if code {
				flush()
			}
			lines = append(lines, line)
		}
	}
	flush()
	return out
}
