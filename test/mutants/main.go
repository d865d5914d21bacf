// Command mutants shows whether the unit tests of a package notice mistakes. It changes one
// operator, condition or constant at a time (a mutant), runs the package's own tests, and
// lists the mutants that no test noticed. "make mutants PKG=internal/elect" runs it.
//
// All mutants are compiled into one test binary, and an environment variable selects one, so
// that a mutant costs one run of the tests and no build. The tree itself is not written to.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// enough is the share of mutants that the tests of a package have to notice, in per cent.
const enough = 95

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	jobs := flag.Int("jobs", 1, "how many mutants to test at the same time")
	file := flag.String("file", "", "only mutants of the file with this name")
	every := flag.Int("every", 1, "test only every so many mutants: a sample, for large packages")
	flag.Parse()
	if err := run(ctx, flag.Args(), *jobs, selection{file: *file, every: max(1, *every)}); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// selection is which mutants are tested.
type selection struct {
	file  string // in which they are; "" is any
	every int
}

func (s selection) has(m *mutant) bool {
	return (s.file == "" || s.file == filepath.Base(m.File)) && m.ID%s.every == 0
}

func run(ctx context.Context, dirs []string, jobs int, only selection) error {
	excused, err := readExcuses(excusesFile)
	if err != nil {
		return err
	}
	var bad []string
	for _, dir := range dirs {
		began := time.Now()
		p, err := load(ctx, filepath.ToSlash(filepath.Clean(dir)))
		if err != nil {
			return err
		}
		r, err := p.test(ctx, jobs, only)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		noticed, same := r.tested-len(r.survivors), 0
		for _, m := range r.survivors {
			if _, ok := excused[m.key()]; ok {
				same++
				continue
			}
			fmt.Printf("%s:%d:%d: %s\n", m.File, m.Line, m.Column, m.key().change())
		}
		for k := range excused {
			if filepath.ToSlash(filepath.Dir(k.file)) == p.dir && only == (selection{every: 1}) && !contains(r.survivors, k) {
				fmt.Printf("%s: %s: a test notices this; remove it from %s\n", k.file, k.change(), excusesFile)
			}
		}
		share := 100 * float64(noticed) / float64(max(1, r.tested-same))
		fmt.Printf("%s: %d mutants, %d noticed (%d by not ending), %d survived, %d change nothing: %.1f %% in %s\n",
			p.dir, r.tested, noticed, r.late, len(r.survivors)-same, same, share, time.Since(began).Round(time.Second))
		if share < enough {
			bad = append(bad, p.dir)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("the tests notice less than %d %% in %s", enough, strings.Join(bad, ", "))
	}
	return nil
}

func contains(mutants []mutant, k key) bool {
	for _, m := range mutants {
		if m.key() == k {
			return true
		}
	}
	return false
}
