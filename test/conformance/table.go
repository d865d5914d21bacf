package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	pagePath = "docs/conformance.md"
	header   = "| test |"
	passes   = "passes" // a cell; any other is a reason why a test cannot
)

// slowTests wait for minutes in every update.
const slowTests = "rolling update"

// table is the one of the page: tests, and what becomes of them in each way to announce.
type table struct {
	columns []string
	rows    []row
}

type row struct {
	test  string
	cells []string // one for each column
}

// readTable finds the table in the page.
func readTable(page string) (*table, error) {
	var t *table
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case t == nil && strings.HasPrefix(line, header):
			t = &table{columns: split(line)[1:]}
		case t == nil || strings.HasPrefix(line, "|---"):
		case !strings.HasPrefix(line, "|"):
			return t, nil
		default:
			cells := split(line)
			if len(cells) != 1+len(t.columns) {
				return nil, fmt.Errorf("%s: want %d cells in %q", pagePath, 1+len(t.columns), line)
			}
			t.rows = append(t.rows, row{cells[0], cells[1:]})
		}
	}
	if t == nil {
		return nil, errors.New(pagePath + " has no table of tests")
	}
	return t, nil
}

func split(line string) []string {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// replaceIn puts the table into the page, instead of the one there.
func (t *table) replaceIn(page string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, header) {
			inside = true
			fmt.Fprintf(&b, "%s %s |\n|%s\n", header, strings.Join(t.columns, " | "), strings.Repeat("---|", 1+len(t.columns)))
			for _, r := range t.rows {
				fmt.Fprintf(&b, "| %s | %s |\n", r.test, strings.Join(r.cells, " | "))
			}
		}
		if inside = inside && strings.HasPrefix(line, "|"); !inside {
			b.WriteString(line)
		}
	}
	return b.String()
}

// choose are the names of the tests that run.
func (t *table) choose(column, focus string, slow bool) []string {
	i := slices.Index(t.columns, column)
	var chosen []string
	for _, r := range t.rows {
		quick := !strings.Contains(r.test, slowTests) && r.cells[i] == passes
		if (slow || quick) && strings.Contains(r.test, focus) {
			chosen = append(chosen, r.test)
		}
	}
	return chosen
}

// problems are the differences between the table and what was seen.
func (t *table) problems(column string, chosen []string, results map[string]result) []string {
	i := slices.Index(t.columns, column)
	var all []string
	for _, r := range t.rows {
		is := results[r.test].status
		switch {
		case !slices.Contains(chosen, r.test):
		case r.cells[i] == passes && is == "":
			all = append(all, fmt.Sprintf("%q did not run", r.test))
		case r.cells[i] == passes && is != statusPassed:
			all = append(all, fmt.Sprintf("%q: %s", r.test, is))
		case r.cells[i] != passes && is == statusPassed:
			all = append(all, fmt.Sprintf("%q passes now: say so in %s", r.test, pagePath))
		}
	}
	for name := range results {
		if !slices.ContainsFunc(t.rows, func(r row) bool { return r.test == name }) {
			all = append(all, fmt.Sprintf("%q is not in the table of %s", name, pagePath))
		}
	}
	slices.Sort(all)
	return all
}

// update writes what was seen into the table. A reason stays if the test still does not pass.
func (t *table) update(column string, results map[string]result) {
	i := slices.Index(t.columns, column)
	for name, seen := range results {
		at := slices.IndexFunc(t.rows, func(r row) bool { return r.test == name })
		if at < 0 {
			at = len(t.rows)
			t.rows = append(t.rows, row{name, slices.Repeat([]string{"?"}, len(t.columns))})
		}
		switch cell := &t.rows[at].cells[i]; {
		case seen.status == statusPassed:
			*cell = passes
		case *cell == passes || *cell == "?":
			*cell = seen.status
		}
	}
}
