// Package script runs tests that are written as text, in testdata: what is put in,
// and what is expected of it. It knows nothing of what they are about.
package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what the scripts in testdata expect")

// Section returns what the text of a section should be. If the section is input, that
// is the text itself.
type Section func(t *testing.T, name, text string) string

// Sections runs testdata/*.txtar, each as a test of its own. It calls open for each
// file, and what open returns for each of the file's sections, in their order.
func Sections(t *testing.T, open func() Section) {
	t.Helper()
	golden(t, "testdata/*.txtar", func(t *testing.T, text string) string {
		archive, section := txtar.Parse([]byte(text)), open()
		for i := range archive.Files {
			f := &archive.Files[i]
			f.Data = []byte(section(t, f.Name, string(f.Data)))
		}
		return string(txtar.Format(archive))
	})
}

// Commands runs testdata/*.txt, each as a test of its own: lines with a command,
// followed by its answers in lines that start with "=". A line "----" begins a new
// world, as open makes it; what it returns runs one command. "#" begins a comment.
func Commands(t *testing.T, open func(*testing.T) func(words []string) (answers []string)) {
	t.Helper()
	golden(t, "testdata/*.txt", func(t *testing.T, text string) string {
		run := open(t)
		var got strings.Builder
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "=") {
				continue
			}
			got.WriteString(line)
			switch words := strings.Fields(line); {
			case len(words) == 0 || strings.HasPrefix(line, "#"):
			case words[0] == "----":
				run = open(t)
			default:
				for _, answer := range run(words) {
					got.WriteString("= " + answer + "\n")
				}
			}
		}
		return got.String()
	})
}

// golden compares files with what they should be, or with -update writes that.
func golden(t *testing.T, pattern string, shouldBe func(t *testing.T, text string) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is no script %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			File(t, path, shouldBe(t, string(text)))
		})
	}
}

// File compares a file with what it should be, or with -update writes that.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(text), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}
