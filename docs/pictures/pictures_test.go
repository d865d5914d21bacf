package pictures

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(tree.Path("docs/benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The picture has the figures of the page, whatever they are.
func TestFailoverHasMeasuredFigures(t *testing.T) {
	text := page(t)
	was := oursInPage.FindStringSubmatch(text)
	if was == nil {
		t.Fatal("docs/benchmarks.md has no row of failover")
	}
	for ms, want := range map[string]string{"370": "0.4 s", "1240": "1.2 s"} {
		p, err := failover(strings.Replace(text, was[0], strings.Replace(was[0], "| "+was[2]+" |", "| "+ms+" |", 1), 1))
		if err != nil {
			t.Fatal(err)
		}
		svg := string(p.SVG())
		for _, want := range []string{">" + want + "<", ">6.8 s<", ">18.6 s<"} {
			if !strings.Contains(svg, want) {
				t.Errorf("with %s ms, %q is missing in\n%s", ms, want, svg)
			}
		}
	}
	if _, err := failover(strings.ReplaceAll(text, "cable cut", "cable pulled")); err == nil {
		t.Error("without its row, there is a picture")
	}
}

// Browsers show nothing of a picture that is not well-formed. Each adapts to dark and
// light, and loads nothing.
func TestPicturesAreWellFormed(t *testing.T) {
	all, err := All(page(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 {
		t.Errorf("there are only %d pictures", len(all))
	}
	for name, svg := range all {
		d := xml.NewDecoder(strings.NewReader(string(svg)))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, is := token.(xml.StartElement); is {
				for _, a := range e.Attr {
					if a.Name.Local != "xmlns" && strings.Contains(a.Value, "://") {
						t.Errorf("%s refers to %s", name, a.Value)
					}
				}
			}
		}
		for _, want := range []string{"prefers-color-scheme: dark", `role="img"`, `aria-label="`} {
			if !strings.Contains(string(svg), want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
}

// The reasons that the flowchart names are those that the code has.
func TestPendingNamesRealReasons(t *testing.T) {
	reference, err := os.ReadFile(tree.Path("docs/reference/reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(pending().SVG())) {
		if !strings.Contains(line, " · ") && !strings.Contains(line, "NoServingEndpoint") {
			continue
		}
		for _, reason := range regexp.MustCompile(`\b[A-Z][a-z]+([A-Z][a-z]+)+\b`).FindAllString(line, -1) {
			if named++; !strings.Contains(string(reference), "\n### "+reason+"\n") {
				t.Errorf("there is no reason %s", reason)
			}
		}
	}
	if named < 6 {
		t.Errorf("the flowchart names only %d reasons", named)
	}
}
