package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a controller, ours or the bare loop, outside of the cluster, or an
// agent on a node.
type process struct {
	started time.Time
	cmd     *exec.Cmd
	pid     int // of the program itself
	log     *os.File
}

// side is one of two who take turns.
type side struct {
	name  string
	start func(*cluster, settings) (*process, error)
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

func startFairlead(c *cluster, s settings) (*process, error) {
	return start(s.binary, "controller", "--kubeconfig", c.api.Kubeconfig)
}

// startBare runs this program once more, so that the bare loop pays for the
// start of a process and for clients and caches of its own, too.
func startBare(c *cluster, _ settings) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(self, "-bare", c.api.Kubeconfig)
}

func start(binary string, args ...string) (*process, error) {
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return launch(cmd, "")
}

// launch starts a prepared command, with its log in a directory.
func launch(cmd *exec.Cmd, dir string) (*process, error) {
	log, err := os.CreateTemp(dir, "fairlead-bench-*.log")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close(), os.Remove(log.Name()))
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// stop ends the process; *err, if it is not nil, gets the end of its log.
func (p *process) stop(err *error) {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if *err != nil {
		if lines, logErr := p.logLines(); logErr == nil {
			*err = fmt.Errorf("%w; the log of %s ends with:\n%s", *err, p.cmd, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	}
	_ = p.log.Close()
	_ = os.Remove(p.log.Name())
}

func (p *process) logLines() ([]string, error) {
	f, err := os.Open(p.log.Name())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}
