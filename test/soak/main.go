// Command soak breaks a sandbox of its own at random for a while, with steady traffic, and
// prints what was seen. It fails if a rule was broken.
//
//	make soak MINUTES=30          print the seed, and take a random one
//	make soak MINUTES=5 SEED=7    the same order of faults again
//
// Package soak of test/kit has the faults and the rules of what clients may notice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	minutes := flag.Float64("minutes", 30, "how `long` faults happen")
	seed := flag.Uint64("seed", 0, "`number` that decides the order of faults; 0: a random one")
	binary := flag.String("binary", "bin/fairlead", "Fairlead's `file`")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	fmt.Printf("seed %d\n", *seed)
	// Its own name: a cluster of make up stays.
	cluster := &sandbox.Cluster{Name: "fairlead-soak"}
	code := site.Main(context.Background(), cluster, func() int { // which takes it down, whatever happens
		err := run(ctx, cluster, *binary, *seed, time.Duration(*minutes*float64(time.Minute)))
		if err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			return 1
		}
		return 0
	}, func(context.Context) (func(), error) { return func() {}, nil })
	stop()
	os.Exit(code)
}

func run(ctx context.Context, cluster *sandbox.Cluster, binary string, seed uint64, long time.Duration) (err error) {
	scratch, err := os.MkdirTemp("", "fairlead-soak")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(scratch)
			return
		}
		fmt.Fprintf(os.Stderr, "the logs of all daemons are in %s\n", scratch)
	}()
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	copied := filepath.Join(scratch, "fairlead") // one that stays the same meanwhile
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		return err
	}
	report, err := soak.Run(ctx, soak.Options{Cluster: cluster, Binary: copied, Scratch: scratch, Seed: seed, For: long, Out: os.Stdout})
	if err != nil {
		return err
	}
	report.Print(os.Stdout)
	if n := len(report.Breaches); n > 0 {
		return errors.New(fmt.Sprint(n, " breaches; SEED=", seed, " gives the same order of faults"))
	}
	return nil
}
