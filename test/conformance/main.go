// Command conformance runs Kubernetes' own tests of Services of type LoadBalancer, which nobody
// here wrote, against Fairlead in a real cluster: once for layer 2, once for BGP. The results must
// be those of the table in docs/conformance.md. It needs root and five minutes for each;
// "make conformance" runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// options are the flags.
type options struct {
	announce string // one of the ways alone
	focus    string // tests whose names contain it
	slow     bool   // those too that wait for long
	update   bool   // write the table
	keep     bool   // leave the cluster for people
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.announce, "announce", "", "announce addresses in one way only: "+strings.Join(wayNames(), " or "))
	flag.StringVar(&o.focus, "focus", "", "run only tests whose names contain this")
	flag.BoolVar(&o.slow, "slow", false, "run also tests of rolling updates and those that cannot pass: up to a quarter of an hour each")
	flag.BoolVar(&o.update, "update", false, "write the results to "+pagePath+" instead of comparing them")
	flag.BoolVar(&o.keep, "keep", false, "do not remove the cluster")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.announce != "" && !slices.Contains(wayNames(), o.announce) {
		return fmt.Errorf("-announce %q: want %s", o.announce, strings.Join(wayNames(), " or "))
	}
	page, err := os.ReadFile(pagePath)
	if err != nil {
		return err
	}
	table, err := readTable(string(page))
	if err != nil {
		return err
	}
	programs, err := buildPrograms(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, w := range ways {
		if o.announce != "" && o.announce != w.name {
			continue
		}
		chosen := table.choose(w.column, o.focus, o.slow)
		results, err := programs.try(ctx, w, table, chosen, o.keep)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("%s: %w", w.column, err))
		}
		report(w.column, chosen, results)
		if o.update {
			table.update(w.column, results)
			continue
		}
		for _, p := range table.problems(w.column, chosen, results) {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", w.column, p))
		}
	}
	if o.update {
		return os.WriteFile(pagePath, []byte(table.replaceIn(string(page))), 0o644)
	}
	return failed
}

// report shows the results.
func report(column string, chosen []string, results map[string]result) {
	fmt.Printf("\n%s:\n", column)
	for _, name := range chosen {
		r := results[name]
		if r.status == "" {
			r.status = "not run"
		}
		fmt.Printf("  %-8s %6.0f s  %s\n", r.status, r.seconds, name)
	}
}
