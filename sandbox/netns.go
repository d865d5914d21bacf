package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 keeps network namespaces that have a name.
const netnsDir = "/run/netns"

// onThread runs f on a thread that ends afterwards, so that f may change the
// thread's namespaces. It is never the process's main thread: its namespaces
// are those that others see as the process's.
func onThread(f func() error) error {
	result := make(chan error)
	var run func()
	run = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return
		}
		done := make(chan struct{})
		go func() { run(); close(done) }()
		<-done
		runtime.UnlockOSThread()
	}
	go run()
	return <-result
}

// inNetns runs f, and the processes f starts, in a named network namespace.
func inNetns(name string, f func() error) error {
	return onThread(func() error {
		ns, err := netns.GetFromName(name)
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", name, err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}

func makeNetns(name string) error {
	return onThread(func() error {
		ns, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		return ns.Close()
	})
}

func removeNetns(name string) error {
	path := filepath.Join(netnsDir, name)
	// EINVAL: not mounted, if making it was interrupted.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

func hasNetns(name string) bool {
	_, err := os.Stat(filepath.Join(netnsDir, name))
	return err == nil
}

// ownNetns lists the names of the cluster's network namespaces, those of
// interrupted starts too.
func (c *Cluster) ownNetns() ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	own := regexp.MustCompile("^" + regexp.QuoteMeta(c.Name) + `-(switch|control|client|node[0-9]+)$`)
	var names []string
	for _, e := range entries {
		if own.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// linksOf returns a handle to the links, addresses and routes of a named
// network namespace.
func linksOf(name string) (*netlink.Handle, error) {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	return h, nil
}
