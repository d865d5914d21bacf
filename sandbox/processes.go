package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A cluster's processes are those in its network namespaces, and those in the
// pid namespaces of its nodes, which die with the node's first process. They
// are looked up rather than remembered: a list in a file would be wrong after
// a crash, and a pid may belong to a stranger by then.

type process struct {
	pid  int
	args []string
	init bool // first process of a pid namespace
}

// processesIn lists the processes whose main thread is in a named network
// namespace.
func processesIn(netnsName string) ([]process, error) {
	var want unix.Stat_t
	err := unix.Stat(filepath.Join(netnsDir, netnsName), &want)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find network namespace %s: %w", netnsName, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var got unix.Stat_t
		// A process that has ended, even if its parent has not been told, has
		// no namespaces any more.
		if unix.Stat(filepath.Join("/proc", e.Name(), "ns/net"), &got) != nil || got.Dev != want.Dev || got.Ino != want.Ino {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		found = append(found, process{
			pid:  pid,
			args: strings.Split(string(bytes.TrimRight(args, "\x00")), "\x00"),
			init: isInit(pid),
		})
	}
	return found, nil
}

// isInit reports whether a process is the first of a pid namespace directly
// below ours: that of a node, and not that of a container of a pod that uses the
// node's network.
func isInit(pid int) bool {
	pids := nestedPIDs(strconv.Itoa(pid))
	return len(pids) == len(nestedPIDs("self"))+1 && pids[len(pids)-1] == "1"
}

// nestedPIDs returns the pids of a process, one for each namespace it is in from
// ours downward; none if it has ended.
func nestedPIDs(pid string) []string {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(pids)
		}
	}
	return nil
}

// find returns the pid of the first process that matches, or 0.
func (c *Cluster) find(hostName string, matches func(process) bool) (int, error) {
	all, err := processesIn(c.netns(hostName))
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(all, matches); i >= 0 {
		return all[i].pid, nil
	}
	return 0, nil
}

func (c *Cluster) controlPlanePID() (int, error) {
	return c.find(ControlHost, func(p process) bool { return slices.Contains(p.args, "control-plane") })
}

func (c *Cluster) forwarderPID() (int, error) {
	return c.find(ControlHost, func(p process) bool { return slices.Contains(p.args, "forward") })
}

func (c *Cluster) nodePID(node host) (int, error) {
	return c.find(node.name, func(p process) bool { return p.init })
}

// killIn kills every process in a named network namespace and returns when
// they are gone.
func killIn(ctx context.Context, netnsName string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		all, err := processesIn(netnsName)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, p := range all {
			if err := unix.Kill(p.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill %d (%s): %w", p.pid, strings.Join(p.args, " "), err)
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for the end of %d (%s): %w", all[0].pid, strings.Join(all[0].args, " "), err)
		}
	}
}

// killFound kills a process and returns when it is not found any more.
func killFound(ctx context.Context, find func() (int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		pid, err := find()
		if err != nil || pid == 0 {
			return err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for the end of %d: %w", pid, err)
		}
	}
}
