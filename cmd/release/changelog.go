package main

import (
	"fmt"
	"regexp"
	"strings"
)

// entry is a section of the changelog.
type entry struct {
	version version
	date    string // "" if it is not released yet
	text    string
}

var (
	entryHeading = regexp.MustCompile(`^## (\S+) \((not released yet|\d{4}-\d{2}-\d{2})\)$`)
	notYet       = "not released yet"
)

// parseChangelog reads a changelog: a title, then a section for each version, the latest
// first.
func parseChangelog(text string) ([]entry, error) {
	var entries []entry
	for i, line := range strings.Split(text, "\n") {
		switch {
		case i == 0:
			if line != "# Changelog" {
				return nil, fmt.Errorf("CHANGELOG.md: line 1 is %q, not \"# Changelog\"", line)
			}
		case strings.HasPrefix(line, "## "):
			m := entryHeading.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("CHANGELOG.md: line %d is %q, not a heading such as \"## 1.2.3 (2026-01-31)\" or \"## 1.2.3 (%s)\"", i+1, line, notYet)
			}
			v, err := parseVersion(m[1])
			if err != nil {
				return nil, fmt.Errorf("CHANGELOG.md: line %d: %w", i+1, err)
			}
			if n := len(entries); n > 0 && v.compare(entries[n-1].version) >= 0 {
				return nil, fmt.Errorf("CHANGELOG.md: line %d: %s is not older than %s above it", i+1, v, entries[n-1].version)
			}
			e := entry{version: v}
			if m[2] != notYet {
				e.date = m[2]
			}
			entries = append(entries, e)
		case len(entries) > 0:
			entries[len(entries)-1].text += line + "\n"
		}
	}
	for i := range entries {
		if entries[i].text = strings.TrimSpace(entries[i].text); entries[i].text == "" {
			return nil, fmt.Errorf("CHANGELOG.md: the section of %s is empty", entries[i].version)
		}
	}
	return entries, nil
}

// changesOf is the section about a version. A release candidate has that of its release,
// which has no date yet.
func changesOf(changelog string, v version) (entry, error) {
	entries, err := parseChangelog(changelog)
	if err != nil {
		return entry{}, err
	}
	for _, e := range entries {
		if e.version != v.real() {
			continue
		}
		if v.pre == 0 && e.date == "" {
			return entry{}, fmt.Errorf("CHANGELOG.md says that %s is %s. Replace that with the date, and commit", v, notYet)
		}
		return e, nil
	}
	return entry{}, fmt.Errorf("CHANGELOG.md has no section %q. Add it, and commit", "## "+v.real().String())
}
