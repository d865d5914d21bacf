package process

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// Process is a program at work.
type Process struct {
	Log *Log

	cmd  *exec.Cmd
	wait func() error // the same answer each time
}

// Start starts a prepared command. It is killed at the end of the test, if it is still
// there, and with the test's own process; if the test fails, its log is shown.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Log: LogOf(t, cmd.Path), cmd: cmd, wait: sync.OnceValue(cmd.Wait)}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// Stop ends the process with SIGTERM and waits until it is gone.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.wait()
}

// Storm runs one process after the other and kills each in the midst of its work, when
// moment returns.
func Storm(kills int, start func() *Process, moment func()) {
	for range kills {
		p := start()
		moment()
		p.Kill()
	}
}
