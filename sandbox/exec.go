package sandbox

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Exec runs a command on a host and returns what it writes. The host is
// "client", "control", "switch", "cloud" if there is one, a VM, or a node; on a node the command sees all that
// the node's own processes see, elsewhere only the network is the host's.
func (c *Cluster) Exec(ctx context.Context, hostName string, command ...string) ([]byte, error) {
	cmd, err := c.ExecCommand(ctx, hostName, command...)
	if err != nil {
		return nil, err
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return output, fmt.Errorf("run %q on %s: %w: %s", strings.Join(command, " "), hostName, err, strings.TrimSpace(string(output)))
	}
	return output, nil
}

// ExecCommand prepares a command for a host as Exec does, for callers that
// have a use for its input or that let it run on.
func (c *Cluster) ExecCommand(ctx context.Context, hostName string, command ...string) (*exec.Cmd, error) {
	if err := c.checkHost(hostName); err != nil {
		return nil, err
	}
	args := []string{"--net=" + filepath.Join(netnsDir, c.netns(hostName)), "--"}
	if n, err := c.node(hostName); err == nil {
		pid, err := c.nodePID(n)
		if err != nil {
			return nil, err
		}
		if pid == 0 {
			return nil, fmt.Errorf("run a command on %s: it does not run", hostName)
		}
		args = []string{"--target=" + strconv.Itoa(pid), "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--", "/usr/bin/env", "PATH=" + nodePath}
	}
	return exec.CommandContext(ctx, "nsenter", append(args, command...)...), nil
}

// Dial connects to an address as a program on a host would.
func (c *Cluster) Dial(ctx context.Context, hostName, network, address string) (net.Conn, error) {
	return c.DialWith(ctx, new(net.Dialer), hostName, network, address)
}

// DialWith is Dial with the options of a dialer.
func (c *Cluster) DialWith(ctx context.Context, dialer *net.Dialer, hostName, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := inNetns(c.netns(hostName), func() (err error) {
		// An address, not a name: the resolver would work on other threads.
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// In calls f in the network of a host: sockets that f opens itself, not in
// goroutines that it starts, are the host's from then on.
func (c *Cluster) In(hostName string, f func() error) error {
	if err := c.checkHost(hostName); err != nil {
		return err
	}
	return inNetns(c.netns(hostName), f)
}

func (c *Cluster) checkHost(name string) error {
	if err := c.open(); err != nil {
		return err
	}
	if c.hasVM(name) || name == SwitchHost || slices.ContainsFunc(c.hosts(), func(h host) bool { return h.name == name }) {
		return nil
	}
	_, err := c.node(name)
	return err
}
