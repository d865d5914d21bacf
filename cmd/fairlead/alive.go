package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
)

const (
	// heartStopped is when a loop that should turn four times a second is given up.
	heartStopped = 10 * time.Second
	// touchPeriod is how often the file is touched, and aliveWithin how old it may
	// be: five were missed.
	touchPeriod = time.Second
	aliveWithin = 5 * time.Second
)

// touch keeps the file young while all is well.
func touch(ctx context.Context, file string, well func() bool, log *slog.Logger) {
	tick := time.NewTicker(touchPeriod)
	defer tick.Stop()
	for {
		if well() {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				log.Error("could not touch the probe file", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// newAliveCommand is what a probe in the pod runs: the image has nothing else.
func newAliveCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "alive FILE",
		Short:  "Check that the agent that touches FILE is alive",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			if age := time.Since(info.ModTime()); age > aliveWithin {
				return fmt.Errorf("%s was touched %s ago", args[0], age.Round(time.Second))
			}
			return nil
		},
	}
}
