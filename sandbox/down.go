package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Down removes the cluster: its processes, namespaces, mounts, cgroups and
// files, also those of a start that was interrupted. It is no error if there
// is nothing. What is left in a cloud is listed first.
func (c *Cluster) Down(ctx context.Context) error {
	if err := c.complete(); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s, err := c.readState(); err == nil && clouds[s.Cloud] != nil {
		c.reportLeftBehind(ctx, clouds[s.Cloud])
	}
	return newProgress(c.Progress).step("removing the sandbox "+c.Name, func(io.Writer) error { return c.remove(ctx) })
}

func (c *Cluster) remove(ctx context.Context) error {
	names, err := c.ownNetns()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := killIn(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := removeNetns(name); err != nil {
			return err
		}
	}
	if err := removeCgroup(ctx, c.cgroup()); err != nil {
		return err
	}
	// EINVAL: no mount point, as almost everywhere.
	if err := unix.Unmount(c.StateDir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount state directory: %w", err)
	}
	if err := os.RemoveAll(c.StateDir); err != nil {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}
