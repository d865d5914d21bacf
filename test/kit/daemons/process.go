// Package daemons runs controllers and agents of the real binary as processes, also on
// the hosts of a sandbox, so that they can be killed, stopped and followed by others at
// any moment. It is for programs as well as for tests: nothing here fails a test.
package daemons

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Process is a program at work, with its log in a file.
type Process struct {
	Started time.Time
	Cmd     *exec.Cmd
	PID     int    // of the program itself
	log     string // its name
}

// Launch starts a prepared command, with its log in a directory.
func Launch(cmd *exec.Cmd, dir string) (*Process, error) { return launch(cmd, dir, "fairlead") }

// launch is Launch with the beginning of the log's name.
func launch(cmd *exec.Cmd, dir, name string) (*Process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, log: log.Name()}
	p.Cmd.Stdout, p.Cmd.Stderr = log, log
	p.Started = time.Now()
	if err := errors.Join(p.Cmd.Start(), log.Close()); err != nil { // the program has it open
		return nil, errors.Join(err, os.Remove(p.log))
	}
	p.PID = cmd.Process.Pid
	return p, nil
}

// Stop ends the process; *err, if it is not nil, gets the end of its log.
func (p *Process) Stop(err *error) {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait()
	if *err != nil {
		if lines, logErr := p.LogLines(); logErr == nil {
			*err = fmt.Errorf("%w; the log of %s ends with:\n%s", *err, p.Cmd, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	}
	_ = os.Remove(p.log)
}

// LogLines is what the process has written so far.
func (p *Process) LogLines() ([]string, error) {
	f, err := os.Open(p.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// Memory returns what the process has in memory, and the most it ever had, in
// MiB, as the kernel counts it.
func (p *Process) Memory() (now, most float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmRSS": &now, "VmHWM": &most}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		if err != nil {
			return 0, 0, err
		}
		*into = kib / 1024
	}
	return now, most, nil
}
