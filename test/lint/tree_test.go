package lint

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/generate", "-check")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLicence(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("LICENSE does not contain %q", want)
		}
	}
}

// Programs are built, not stored: "go build ./cmd/generate" leaves one in the tree.
func TestNoProgramsInTheTree(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "bin" || name == "dist" || name == ".git") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.HasPrefix(content, []byte("\x7fELF")) {
			t.Errorf("%s is a program; delete it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Targets of the Makefile are short: what is longer is a Go program.
func TestMakefileTargetsAreShort(t *testing.T) {
	const most = 5
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	target, lines := "", 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "\t"):
			if lines++; lines > most {
				t.Errorf("target %s has more than %d lines", target, most)
			}
		case regexp.MustCompile(`^[a-z]+:`).MatchString(line):
			target, _, _ = strings.Cut(line, ":")
			lines = 0
		}
	}
}

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)

// Links in the documentation lead somewhere. One to a Go file whose text is a
// `name` promises that the file declares that name.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, f := range tree(t, ".md") {
		for _, link := range markdownLink.FindAllStringSubmatch(f.text, -1) {
			text, target := link[1], link[2]
			path, anchor, _ := strings.Cut(target, "#")
			if strings.Contains(target, "://") {
				continue
			}
			if path == "" {
				path = filepath.Base(f.path)
			}
			raw, err := os.ReadFile(filepath.Join(root, filepath.Dir(f.path), path))
			if err != nil {
				if info, dirErr := os.Stat(filepath.Join(root, filepath.Dir(f.path), path)); dirErr != nil || !info.IsDir() {
					t.Errorf("%s: link to %s: %v", f.path, target, err)
				}
				continue
			}
			if anchor != "" && !hasAnchor(string(raw), anchor) {
				t.Errorf("%s: link to %s: no such heading", f.path, target)
			}
			if name := strings.Trim(text, "`"); strings.HasSuffix(path, ".go") && strings.HasPrefix(text, "`") && !declares(string(raw), name) {
				t.Errorf("%s: %s does not declare %s", f.path, target, name)
			}
		}
	}
}

func hasAnchor(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
			id := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			if strings.ReplaceAll(id, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// declares says whether Go source has a function, method, type, variable or
// constant with the name, which may be given as Type.Method or package.Name.
func declares(source, name string) bool {
	name = name[strings.LastIndex(name, ".")+1:]
	return regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |const |\t)` + regexp.QuoteMeta(name) + `\b`).MatchString(source)
}
