package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"fairlead.io/test/kit/daemons"
)

// side is one of two who take turns.
type side struct {
	name  string
	start func(*cluster, settings) (*daemons.Process, error)
}

var sides = []side{{"fairlead", startFairlead}, {"bare loop", startBare}}

// takeTurns calls measure for each side in each round.
func takeTurns(rounds int, sides []side, measure func(i int, of side) error) error {
	return inTurns(rounds, len(sides), func(i int) error {
		if err := measure(i, sides[i]); err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
		return nil
	})
}

// inTurns calls measure with 0 to n-1 in each round. Who comes first in one round
// comes last in the next.
func inTurns(rounds, n int, measure func(i int) error) error {
	for round := range rounds {
		for turn := range n {
			if err := measure((round + turn) % n); err != nil {
				return err
			}
		}
	}
	return nil
}

func startFairlead(c *cluster, s settings) (*daemons.Process, error) {
	return start(s.binary, "controller", "--kubeconfig", c.api.Kubeconfig)
}

// startBare runs this program once more, so that the bare loop pays for the
// start of a process and for clients and caches of its own, too.
func startBare(c *cluster, _ settings) (*daemons.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(self, "-bare", c.api.Kubeconfig)
}

func start(binary string, args ...string) (*daemons.Process, error) {
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return daemons.Launch(cmd, "")
}
