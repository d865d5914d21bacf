package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package lamp

// Constants and types stay as they are.
const width = 2 + 3

type strip [width - 1]bool

var on = true

func (s *strip) lit(from, to int, name string) bool {
	if from < to && s.has(from) {
		return !s[from]
	}
	if s.has(to + 1) {
		return name+"!" == "x"
	}
	return false
}

func (*strip) has(i int) bool { return i-1 >= width }
`

func TestMutants(t *testing.T) {
	p := &pkg{dir: "lamp", name: "lamp", files: map[string][]byte{}}
	if err := p.mutate(map[string][]byte{"lamp/lamp.go": []byte(source)}, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range p.mutants {
		got = append(got, m.key().change())
	}
	want := []string{
		": true → false",
		"strip.lit: from < to && s.has(from) → !(from < to && s.has(from))",
		"strip.lit: from < to && s.has(from) → from < to || s.has(from)",
		"strip.lit: from < to → from <= to",
		"strip.lit: from < to → from >= to",
		"strip.lit: !s[from] → s[from]",
		"strip.lit: s.has(to + 1) → !(s.has(to + 1))",
		"strip.lit: to + 1 → to - 1",
		`strip.lit: name+"!" == "x" → name+"!" != "x"`,
		"strip.lit: false → true",
		"strip.has: i-1 >= width → i-1 > width",
		"strip.has: i-1 >= width → i-1 < width",
		"strip.has: i-1 → i + 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	text := string(p.files["lamp/lamp.go"])
	for _, same := range []string{"const width = 2 + 3\n", "type strip [width - 1]bool\n", "// Constants and types stay as they are.\n"} {
		if !strings.Contains(text, same) {
			t.Errorf("%q is gone:\n%s", same, text)
		}
	}
}

// TestMutantsAreNoticed has a test that notices one of two mutants.
func TestMutantsAreNoticed(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":            "module lamp\n\ngo 1.26\n",
		"lamp/lamp.go":      "package lamp\n\nfunc Lit(n int) bool { return n > 2 }\n",
		"lamp/lamp_test.go": "package lamp\n\nimport \"testing\"\n\nfunc TestLit(t *testing.T) {\n\tif !Lit(5) || Lit(1) {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := load(t.Context(), "lamp")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.test(t.Context(), 1, selection{every: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.tested != 2 || r.late != 0 || len(r.survivors) != 1 || r.survivors[0].New != "n >= 2" {
		t.Errorf("got %+v", r)
	}
}

// TestExcusesAreForMutants keeps the list in line with the tree.
func TestExcusesAreForMutants(t *testing.T) {
	t.Chdir("../..")
	excuses, err := readExcuses(excusesFile)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]map[key]bool{}
	for k := range excuses {
		dir := filepath.ToSlash(filepath.Dir(k.file))
		if packages[dir] == nil {
			packages[dir] = mutantsOf(t.Context(), t, dir)
		}
		if !packages[dir][k] {
			t.Errorf("%s: %s: there is no such mutant any more", k.file, k.change())
		}
	}
}

func mutantsOf(ctx context.Context, t *testing.T, dir string) map[key]bool {
	t.Helper()
	p, err := load(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[key]bool{}
	for _, m := range p.mutants {
		out[m.key()] = true
	}
	return out
}
