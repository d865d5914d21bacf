package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// detached is a process that outlives us, in a network namespace of the
// cluster.
type detached struct {
	netns      string
	argv       []string
	log        string     // appended to
	env        []string   // besides ours
	files      []*os.File // descriptors 3 and up
	namespaces uintptr    // further ones, which it gets for itself
}

// disinherit keeps what this process has inherited from going on to its children: one
// that outlives it would hold a lock of "flock", or the pipe of a shell, for ever. What
// Go has opened does not go on anyway, and ExtraFiles do all the same.
func disinherit() {
	const firstExtra = 3
	// An old kernel does not know this; then all is as it was.
	_ = unix.CloseRange(firstExtra, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// start returns a channel that is closed if the process ends while we are
// still there.
func (d detached) start() (<-chan struct{}, error) {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(d.argv[0], d.argv[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), d.env...)
	cmd.ExtraFiles = d.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: d.namespaces}
	disinherit()
	if err := inNetns(d.netns, cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.argv[0], err)
	}
	ended := make(chan struct{})
	go func() {
		// How it ends is in its log.
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			panic(err)
		}
		close(ended)
	}()
	return ended, nil
}
