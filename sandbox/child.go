package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// child is a process that ends with ours, whatever ends ours, and that is
// killed together with all its descendants.
type child struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // valid once done is closed
}

// startChild starts cmd in a process group of its own. The kernel sends it
// SIGTERM when this process dies.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the starting thread ends, not the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		c.pid = cmd.Process.Pid
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// kill kills the group and waits for the process to be gone.
func (c *child) kill() error {
	select {
	case <-c.done:
		return nil
	default:
	}
	if err := syscall.Kill(-c.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", c.pid, err)
	}
	<-c.done
	return nil
}

// logTail returns the last lines of a log, to be shown in an error.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		if _, err := f.Seek(max(0, size-16<<10), io.SeekStart); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("last lines of %s:\n%s", path, tailOf(strings.Split(string(bytes.TrimSpace(content)), "\n")))
}

func tailOf(lines []string) string {
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
