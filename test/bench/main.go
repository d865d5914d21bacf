// Command bench measures Fairlead against what the API server can do alone, and
// what clients see of its agents, prints a table, and writes the same to
// bench.json.
//
//	make bench                       everything, with 1,000 Services (10,000 for the memory and the page)
//	go run ./test/bench -run alloc   only the groups whose name matches
//	go run ./test/bench -n 100       with fewer Services, to try the bench itself
//
// Seconds say more about the machine than about Fairlead. So the controller's
// targets, but those of memory, are counts, or ratios of medians of runs that
// took turns on the same API server. Those of agents are times, because what
// clients wait for is mostly time-outs: a busy machine only makes them longer.
// Rows without a target are there for the scale.
//
// Each group of rows is one file; a new one is added to the list in this file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
)

// settings are the choices of the command line.
type settings struct {
	binary string // of Fairlead
	n      int    // Services
	rounds int    // of those who take turns
	lan    *lan   // that groups with agents share
}

// group is a set of rows that are measured together.
type group struct {
	name string
	run  func(context.Context, settings) ([]Row, error)
}

var groups = []group{
	{"allocation", allocation},
	{"throughput", throughput},
	{"sharing", sharing},
	{"latency", latency},
	{"hostile", hostile},
	{"writes", writes},
	{"kube-vip", kubevipProvider},
	{"memory", memory},
	{"page", livePage},
	{"status", statusCommand},
	{"nftables", nftables},
	{"members", members},
	{"deaths", deaths},
	{"endpoints", endpointBurst},
	{"failover", failover},
	{"moves", connectionMoves},
	{"agent", agentCost},
	{"cloud", cloud},
	{"cloudsigma", sigma},
	{"cloudsigma-failover", sigmaFailover},
	{"bgp", bgpTables},
	{"bgp-nodes", bgpNodes},
	{"ovn", ovnServices},
	{"ovn-writes", ovnWrites},
	{"ovn-rows", ovnRows},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var s settings
	flag.StringVar(&s.binary, "binary", "bin/fairlead", "Fairlead's `file`")
	flag.IntVar(&s.n, "n", 1000, "`number` of Services; the memory and the page are measured with ten times as many")
	flag.IntVar(&s.rounds, "rounds", 6, "`number` of runs of each side, whose median counts; what happens to nodes happens twice as often")
	only := flag.String("run", "", "measure only the groups that match this `regexp`")
	out := flag.String("o", "bench.json", "`file` to write the rows to")
	bareConfig := flag.String("bare", "", "be the bare loop that Fairlead is compared with, on the cluster of this `kubeconfig`")
	provides := flag.Bool("provide", false, "as the bare loop, write what kube-vip looks for")
	socket := flag.String("northbound", "", "as the bare loop, write rows into the northbound database at this `socket`")
	flag.Parse()
	if *bareConfig != "" {
		var nb *northbound
		if *socket != "" {
			nb = &northbound{socket: *socket}
			if err := nb.find(ctx); err != nil {
				return err
			}
		}
		return bare(ctx, *bareConfig, *provides, nb)
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	crlog.SetLogger(logr.Discard())
	s.lan = &lan{}
	defer func() { err = errors.Join(err, s.lan.down(ctx)) }()
	var rows []Row
	for _, g := range groups {
		if !match.MatchString(g.name) {
			continue
		}
		began := time.Now()
		progress("%s", g.name)
		more, err := g.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		progress("%s took %s", g.name, time.Since(began).Round(time.Second))
		for _, r := range more {
			r.Name = g.name + ": " + r.Name
			rows = append(rows, r)
		}
	}
	printTable(os.Stdout, rows)
	return writeJSON(*out, rows)
}

// progress tells a person who waits what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
