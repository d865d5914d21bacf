package main

import (
	"os"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

func TestNext(t *testing.T) {
	tags := func(s string) []version { return versionsOf(strings.Fields(s)) }
	for _, c := range []struct {
		tags, part string
		pre        bool
		want       string
	}{
		{"", "patch", false, "0.0.1"},
		{"", "minor", false, "0.1.0"},
		{"", "minor", true, "0.1.0-rc.1"},
		{"v0.1.0", "patch", false, "0.1.1"},
		{"v0.1.0 v0.1.1", "minor", false, "0.2.0"},
		{"v0.1.0 v0.9.9", "major", false, "1.0.0"},
		{"v0.9.0 v0.10.0", "minor", false, "0.11.0"},
		{"v0.1.0 v0.2.0-rc.1 v0.2.0-rc.9 v0.2.0-rc.10", "minor", true, "0.2.0-rc.11"},
		{"v0.1.0 v0.2.0-rc.1", "minor", false, "0.2.0"},
		{"v0.1.0 v0.2.0-rc.1", "patch", true, "0.1.1-rc.1"},
		{"v0.1.0 nightly v2 v1.0.0.0 v01.0.0 v3.0.0-beta 9.0.0", "patch", false, "0.1.1"},
	} {
		got, err := next(tags(c.tags), c.part, c.pre)
		if err != nil || got.String() != c.want {
			t.Errorf("after %q, %s (pre: %t) is %s (%v), want %s", c.tags, c.part, c.pre, got, err, c.want)
		}
	}
	if _, err := next(nil, "huge", false); err == nil || !strings.Contains(err.Error(), "patch, minor or major") {
		t.Errorf("huge: %v", err)
	}
}

func TestChangelog(t *testing.T) {
	const good = "# Changelog\n\n## 0.2.0 (not released yet)\n\n- new\n\n## 0.1.0 (2026-01-31)\n\n- first\n- more\n"
	for _, c := range []struct {
		name, text, version string
		want, fails         string
	}{
		{"released", good, "0.1.0", "- first\n- more", ""},
		{"candidate", good, "0.2.0-rc.3", "- new", ""},
		{"without a date", good, "0.2.0", "", "0.2.0 is not released yet. Replace that with the date"},
		{"missing", good, "0.3.0", "", `no section "## 0.3.0"`},
		{"no title", "## 0.1.0 (2026-01-31)\n\nx\n", "0.1.0", "", "line 1"},
		{"no brackets", "# Changelog\n\n## 0.1.0\n\nx\n", "0.1.0", "", "line 3"},
		{"a word", "# Changelog\n\n## next (2026-01-31)\n\nx\n", "0.1.0", "", `line 3: "next" is not a version`},
		{"twice", good + "## 0.1.0 (2026-01-30)\n\nx\n", "0.1.0", "", "0.1.0 is not older than 0.1.0"},
		{"wrong order", good + "## 0.1.1 (2026-01-30)\n\nx\n", "0.1.0", "", "0.1.1 is not older than 0.1.0"},
		{"empty", "# Changelog\n\n## 0.1.0 (2026-01-31)\n\n\n", "0.1.0", "", "section of 0.1.0 is empty"},
	} {
		v, err := parseVersion(c.version)
		if err != nil {
			t.Fatal(err)
		}
		got, err := changesOf(c.text, v)
		switch {
		case c.fails == "" && (err != nil || got.text != c.want):
			t.Errorf("%s: %q (%v), want %q", c.name, got.text, err, c.want)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
		}
	}
}

// The changelog of the tree can be released.
func TestChangelogOfTheTree(t *testing.T) {
	text, err := os.ReadFile(tree.Path("CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseChangelog(string(text)); err != nil {
		t.Error(err)
	}
}
