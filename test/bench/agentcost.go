package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.io/test/kit/daemons"
)

const (
	// watched is how long the agents' CPU is counted: in that time the lifetime of
	// every address is renewed once.
	watched = 20 * time.Second
	// ticksPerSecond is the unit of CPU times in /proc.
	ticksPerSecond = 100
)

// agentCost: what an agent takes that has all addresses of a cluster of three
// nodes, while nothing happens.
func agentCost(ctx context.Context, s settings) (rows []Row, err error) {
	l := s.lan
	if err := l.up(ctx, s); err != nil {
		return nil, err
	}
	defer func() { l.Tell(&err) }()
	owner, other := l.nodes[0], l.nodes[1]
	if err := l.gather(ctx, owner, s.n); err != nil {
		return nil, err
	}
	progress("  %s has %d addresses; counting for %s", owner, s.n, watched)
	agents := []*daemons.Agent{l.Agents[owner], l.Agents[other]}
	var before, after [2]float64
	for i, a := range agents {
		if before[i], err = cpuSeconds(a.PID); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, watched); err != nil {
		return nil, err
	}
	var resident [2]float64
	for i, a := range agents {
		if after[i], err = cpuSeconds(a.PID); err != nil {
			return nil, err
		}
		if resident[i], _, err = a.Memory(); err != nil {
			return nil, err
		}
	}
	share := func(i int) float64 { return (after[i] - before[i]) / watched.Seconds() * 100 }
	with, without := fmt.Sprintf("with %d addresses", s.n), fmt.Sprintf("without one, beside that with %d", s.n)
	return []Row{
		info(with+", of a core", share(0), "%"),
		info(with+", memory", resident[0], "MiB"),
		info(without+", of a core", share(1), "%"),
		info(without+", memory", resident[1], "MiB"),
	}, nil
}

// gather makes dual-stack Services with n addresses while only one node has an
// agent, which so gets all of them, then lets the others come, and waits until
// nothing happens any more.
func (l *lan) gather(ctx context.Context, owner string, n int) error {
	for node, a := range l.Agents {
		if node != owner && a.Alive() {
			if err := a.End(ctx, syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
	if err := l.Run(ctx, owner); err != nil {
		return err
	}
	err := concurrently(ctx, n/2, inFlight, func(i int) error {
		_, err := l.newService(ctx, namespace, fmt.Sprintf("web-%05d", i))
		return err
	})
	if err != nil {
		return err
	}
	all := func() (bool, error) {
		out, err := l.Cluster.Exec(ctx, owner, "ip", "-o", "address", "show", "dev", "eth0")
		text := string(out)
		return strings.Count(text, " 10.78.")+strings.Count(text, " fd78:") == n/2*2, err
	}
	if err := pollFor(ctx, time.Minute, owner+" has all addresses", time.Second, all); err != nil {
		return err
	}
	if err := l.Run(ctx, l.nodes...); err != nil {
		return err
	}
	if err := pause(ctx, watched/2); err != nil {
		return err
	}
	still, err := all()
	if err == nil && !still {
		err = fmt.Errorf("%s does not have all addresses any more", owner)
	}
	return err
}

// cpuSeconds is what a process has used so far.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// After the name, which may contain anything, in parentheses: fields from 3 on.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0.0
	for _, field := range fields[14-3 : 16-3] { // in user mode, in the kernel
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks / ticksPerSecond, nil
}
