package main

import (
	"fmt"
	"os"
	"strings"
)

// excusesFile lists mutants that change nothing anybody could see, each with its reason.
const excusesFile = "test/mutants/unchanged.txt"

// key names a mutant independently of line numbers.
type key struct{ file, function, before, after string }

func (m mutant) key() key { return key{m.File, m.Func, m.Old, m.New} }

func (k key) change() string { return fmt.Sprintf("%s: %s → %s", k.function, k.before, k.after) }

// readExcuses reads entries of two lines: what excuse prints, then an indented reason.
func readExcuses(path string) (map[key]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[key]string{}
	var last key
	for n, line := range strings.Split(string(text), "\n") {
		switch reason := strings.TrimSpace(line); {
		case reason == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " "):
			if last == (key{}) {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, n+1)
			}
			out[last] = strings.TrimSpace(out[last] + " " + reason)
		default:
			where, after, ok := strings.Cut(line, " → ")
			parts := strings.SplitN(where, ": ", 3)
			if !ok || len(parts) < 3 {
				return nil, fmt.Errorf("%s:%d: want file: function: before → after", path, n+1)
			}
			last = key{parts[0], parts[1], parts[2], after}
			out[last] = ""
		}
	}
	for k, reason := range out {
		if reason == "" {
			return nil, fmt.Errorf("%s: no reason for %s: %s", path, k.file, k.change())
		}
	}
	return out, nil
}
